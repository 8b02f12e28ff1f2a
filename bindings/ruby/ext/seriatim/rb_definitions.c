/* rb_definitions.c - what the core defines by name, for Ruby: the settings of a worker. */
#include "seriatim_native.h"

#define SET(hash, name, value) rb_hash_aset(hash, ID2SYM(rb_intern(name)), value)

static VALUE definitions_words(const char *words)
{
    VALUE list = rb_ary_new();
    for (; *words; words += strlen(words) + 1)
        rb_ary_push(list, ID2SYM(rb_intern(words)));
    return rb_ary_freeze(list);
}

/* A number of the setting's kind: a Float for seconds, else an Integer. */
static VALUE definitions_number(const seriatim_setting *s, double number)
{
    return s->kind == SERIATIM_SETTING_SECONDS ? DBL2NUM(number) : LL2NUM((int64_t)number);
}

static VALUE definitions_default(const seriatim_setting *s)
{
    if (s->use == SERIATIM_USE_OPTIONAL || s->kind == SERIATIM_SETTING_TEXT)
        return Qnil;
    if (s->kind == SERIATIM_SETTING_WORD)
        return ID2SYM(rb_intern(s->initial_word));
    if (s->kind == SERIATIM_SETTING_FLAG)
        return s->initial > 0 ? Qtrue : Qfalse;
    return definitions_number(s, s->initial);
}

static VALUE definitions_setting(const seriatim_setting *s)
{
    VALUE hash = rb_hash_new();
    SET(hash, "name", ID2SYM(rb_intern(s->name)));
    SET(hash, "kind", ID2SYM(rb_intern(s->kind_name)));
    SET(hash, "optional", s->use == SERIATIM_USE_OPTIONAL ? Qtrue : Qfalse);
    SET(hash, "default", definitions_default(s));
    SET(hash, "range", rb_range_new(definitions_number(s, s->least), definitions_number(s, s->most), 0));
    SET(hash, "words", definitions_words(s->words ? s->words : ""));
    return rb_hash_freeze(hash);
}

/*
 * Native.worker_settings -> [{name:, kind:, default:, optional:, range:, words:}, ...] of those that users set. kind is
 * :text (range: of its bytes), :word, :integer, :seconds or :flag.
 */
static VALUE definitions_worker_settings(VALUE self)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    VALUE list = rb_ary_new();
    (void)self;
    for (i = 0; i < count; i++)
        if (all[i].use != SERIATIM_USE_HIDDEN)
            rb_ary_push(list, definitions_setting(&all[i]));
    return rb_ary_freeze(list);
}

/* A Symbol or a String, whose characters the value keeps. */
static const char *definitions_word(VALUE *value)
{
    if (SYMBOL_P(*value))
        *value = rb_sym2str(*value);
    return StringValueCStr(*value);
}

static void definitions_take(seriatim_queue_settings *settings, const seriatim_setting *s, VALUE *value)
{
    void *field = seriatim_setting_field(settings, s);
    switch (s->kind) {
    case SERIATIM_SETTING_TEXT:
        Check_Type(*value, T_STRING);
        settings->name = RSTRING_PTR(*value);
        settings->name_len = (size_t)RSTRING_LEN(*value);
        break;
    case SERIATIM_SETTING_WORD:
        *(const char **)field = definitions_word(value);
        break;
    case SERIATIM_SETTING_COUNT:
        *(int64_t *)field = NUM2LL(*value);
        break;
    case SERIATIM_SETTING_SECONDS:
        *(double *)field = NUM2DBL(*value);
        break;
    default:
        *(int *)field = RTEST(*value);
    }
}

void srb_queue_settings(VALUE hash, seriatim_queue_settings *settings)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    VALUE buffer, *values; /* on the stack: a collection may move what only the Hash refers to */
    Check_Type(hash, T_HASH);
    values = ALLOCV_N(VALUE, buffer, count);
    seriatim_queue_settings_init(settings);
    for (i = 0; i < count; i++) {
        values[i] = rb_hash_lookup(hash, ID2SYM(rb_intern(all[i].name)));
        if (!NIL_P(values[i]))
            definitions_take(settings, &all[i], &values[i]);
    }
    ALLOCV_END(buffer);
}

void srb_init_definitions(void)
{
    rb_define_singleton_method(srb_native, "worker_settings", definitions_worker_settings, 0);
}
