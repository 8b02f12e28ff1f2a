/*
 * rb_json.c - Seriatim::Native.dump and .load: Ruby objects to canonical JSON and back, by the core's writer and
 * reader.
 */
#include "seriatim_native.h"

#define SRB_PATH_SIZE 256

/* ---- dump ---------------------------------------------------------------------------------- */

static int json_write(srb_json_writer *d, VALUE value);

/*
 * The text as UTF-8, or nil: it cannot be converted. What is UTF-8, ASCII or binary stays as it is, for the writer to
 * check.
 */
static VALUE json_utf8(VALUE text)
{
    int index = ENCODING_GET(text);
    if (index == rb_utf8_encindex() || index == rb_usascii_encindex() || index == rb_ascii8bit_encindex())
        return text;
    text = rb_str_conv_enc(text, rb_enc_from_index(index), rb_utf8_encoding());
    return ENCODING_GET(text) == rb_utf8_encindex() ? text : Qnil; /* it is the same one after an error */
}

/* Nothing is written of a value that no rule covers; the path then still ends at it. */
static int json_refuse(srb_json_writer *d, VALUE rule)
{
    if (NIL_P(d->refused))
        d->refused = rule;
    return 0;
}

static int json_refuse_text(srb_json_writer *d, const char *rule)
{
    return json_refuse(d, rb_utf8_str_new_cstr(rule));
}

static int json_refuse_class(srb_json_writer *d, VALUE value, const char *rule)
{
    return json_refuse(d, rb_sprintf("%" PRIsVALUE " %s", rb_class_name(rb_obj_class(value)), rule));
}

static int json_write_member(VALUE key, VALUE value, VALUE arg)
{
    srb_json_writer *d = (srb_json_writer *)arg;
    VALUE text = SYMBOL_P(key) ? rb_sym2str(key) : key;
    if (!RB_TYPE_P(text, T_STRING)) {
        json_refuse_class(d, key, "cannot be a key: keys must be Strings or Symbols");
        return ST_STOP;
    }
    text = json_utf8(text);
    if (NIL_P(text)) {
        json_refuse_text(d, "a key must be valid UTF-8");
        return ST_STOP;
    }
    if (srt_json_key(&d->writer, RSTRING_PTR(text), (size_t)RSTRING_LEN(text)) != SERIATIM_OK)
        return ST_STOP;
    RB_GC_GUARD(text);
    return json_write(d, value) ? ST_CONTINUE : ST_STOP;
}

static int json_write_object(srb_json_writer *d, VALUE hash)
{
    srt_json_made_of(&d->writer, (const void *)hash);
    if (srt_json_begin_object(&d->writer) != SERIATIM_OK)
        return 0;
    rb_hash_foreach(hash, json_write_member, (VALUE)d);
    return NIL_P(d->refused) && srt_json_end_object(&d->writer) == SERIATIM_OK;
}

static int json_write_array(srb_json_writer *d, VALUE array)
{
    long i;
    srt_json_made_of(&d->writer, (const void *)array);
    if (srt_json_begin_array(&d->writer) != SERIATIM_OK)
        return 0;
    for (i = 0; i < RARRAY_LEN(array); i++)
        if (!json_write(d, RARRAY_AREF(array, i)))
            return 0;
    return srt_json_end_array(&d->writer) == SERIATIM_OK;
}

static int json_write_text(srb_json_writer *d, VALUE text)
{
    int status;
    text = json_utf8(text);
    if (NIL_P(text))
        return json_refuse_text(d, "a string must be valid UTF-8");
    status = srt_json_string(&d->writer, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
    RB_GC_GUARD(text);
    return status == SERIATIM_OK;
}

static int json_write_bignum(srb_json_writer *d, VALUE value)
{
    int64_t word = 0;
    int sign = rb_integer_pack(value, &word, 1, sizeof word, 0,
                               INTEGER_PACK_NATIVE_BYTE_ORDER | INTEGER_PACK_2COMP | INTEGER_PACK_LSWORD_FIRST);
    if (sign < -1 || sign > 1 || (sign > 0) != (word >= 0))
        return json_refuse_text(d, "Integer must be from -2^63 to 2^63-1");
    return srt_json_int(&d->writer, word) == SERIATIM_OK;
}

static int json_write(srb_json_writer *d, VALUE value)
{
    switch (rb_type(value)) {
    case T_STRING:
        return json_write_text(d, value);
    case T_SYMBOL:
        return json_write_text(d, rb_sym2str(value));
    case T_FIXNUM:
        return srt_json_int(&d->writer, FIX2LONG(value)) == SERIATIM_OK;
    case T_HASH:
        return json_write_object(d, value);
    case T_ARRAY:
        return json_write_array(d, value);
    case T_FLOAT:
        return srt_json_double(&d->writer, RFLOAT_VALUE(value)) == SERIATIM_OK;
    case T_NIL:
        return srt_json_null(&d->writer) == SERIATIM_OK;
    case T_TRUE:
        return srt_json_bool(&d->writer, 1) == SERIATIM_OK;
    case T_FALSE:
        return srt_json_bool(&d->writer, 0) == SERIATIM_OK;
    case T_BIGNUM:
        return json_write_bignum(d, value);
    default:
        return json_refuse_class(d, value, "cannot be written as JSON");
    }
}

void srb_json_open_writer(srb_json_writer *d)
{
    srt_bytes_init(&d->out, seriatim_default_allocator());
    srt_json_writer_init(&d->writer, &d->out, "");
}

void srb_json_close_writer(srb_json_writer *d)
{
    srt_json_writer_free(&d->writer);
    srt_bytes_free(&d->out);
}

int srb_json_write(srb_json_writer *d, VALUE value)
{
    srt_bytes_clear(&d->out);
    srt_json_writer_reset(&d->writer);
    d->refused = Qnil;
    return json_write(d, value) && srt_json_finish(&d->writer) == SERIATIM_OK;
}

void srb_json_refuse(srb_json_writer *d, const char *root)
{
    char path[SRB_PATH_SIZE];
    const char *rule = d->writer.error.message;
    size_t len;
    if (NIL_P(d->refused) && d->writer.error.status == SERIATIM_NOMEM)
        rb_memerror();
    d->writer.root = root;
    len = srt_json_writer_path(&d->writer, path, sizeof path);
    if (!NIL_P(d->refused))
        rule = StringValueCStr(d->refused);
    srb_invalid(rb_enc_sprintf(rb_utf8_encoding(), "%.*s%s%s", (int)len, path, len ? ": " : "", rule));
}

typedef struct json_dump {
    srb_json_writer json;
    VALUE value, root;
} json_dump;

static VALUE json_dump_body(VALUE arg)
{
    json_dump *d = (json_dump *)arg;
    if (!srb_json_write(&d->json, d->value))
        srb_json_refuse(&d->json, StringValueCStr(d->root));
    return rb_utf8_str_new(d->json.out.data, (long)d->json.out.len);
}

static VALUE json_dump_ensure(VALUE arg)
{
    srb_json_close_writer(&((json_dump *)arg)->json);
    return Qnil;
}

/* Native.dump(value, root): canonical JSON; root is what the path in an error begins with. */
static VALUE native_dump(VALUE self, VALUE value, VALUE root)
{
    json_dump d;
    (void)self;
    d.value = value;
    d.root = root;
    StringValueCStr(root);
    srb_json_open_writer(&d.json);
    value = rb_ensure(json_dump_body, (VALUE)&d, json_dump_ensure, (VALUE)&d);
    RB_GC_GUARD(root);
    return value;
}

/* ---- load ---------------------------------------------------------------------------------- */

static void json_next(srb_json_reader *l)
{
    if (srt_json_next(&l->reader, &l->token) == SERIATIM_OK)
        return;
    if (l->reader.error.status == SERIATIM_NOMEM)
        rb_memerror();
    rb_exc_raise(rb_funcall(srb_native, rb_intern("error"), 2, ID2SYM(rb_intern("UNDECODABLE")),
                            rb_utf8_str_new_cstr(l->reader.error.message)));
}

static VALUE json_read(srb_json_reader *l);

static VALUE json_read_array(srb_json_reader *l)
{
    VALUE array = rb_ary_new();
    for (json_next(l); l->token.type != SRT_JSON_END_ARRAY; json_next(l))
        rb_ary_push(array, json_read(l));
    return array;
}

static VALUE json_read_object(srb_json_reader *l)
{
    VALUE hash = rb_hash_new();
    for (json_next(l); l->token.type != SRT_JSON_END_OBJECT; json_next(l)) {
        VALUE key = rb_enc_interned_str(l->token.text, (long)l->token.len, rb_utf8_encoding());
        json_next(l);
        rb_hash_aset(hash, key, json_read(l));
    }
    return hash;
}

/* The value that begins with the current token; leaves its last token current. */
static VALUE json_read(srb_json_reader *l)
{
    switch (l->token.type) {
    case SRT_JSON_BEGIN_ARRAY:
        return json_read_array(l);
    case SRT_JSON_BEGIN_OBJECT:
        return json_read_object(l);
    case SRT_JSON_STRING:
        return rb_utf8_str_new(l->token.text, (long)l->token.len);
    case SRT_JSON_INT:
        return LL2NUM(l->token.integer);
    case SRT_JSON_DOUBLE:
        return DBL2NUM(l->token.number);
    case SRT_JSON_TRUE:
        return Qtrue;
    case SRT_JSON_FALSE:
        return Qfalse;
    default:
        return Qnil;
    }
}

void srb_json_open(srb_json_reader *l)
{
    srt_json_reader_init(&l->reader, seriatim_default_allocator(), NULL, 0);
}

VALUE srb_json_read(srb_json_reader *l, const char *bytes, size_t len)
{
    VALUE value;
    srt_json_reader_reset(&l->reader, bytes, len);
    json_next(l);
    value = json_read(l);
    json_next(l); /* END, or it raises */
    return value;
}

void srb_json_close(srb_json_reader *l)
{
    srt_json_reader_free(&l->reader);
}

typedef struct json_load {
    srb_json_reader reader;
    VALUE bytes;
} json_load;

static VALUE json_load_body(VALUE arg)
{
    json_load *l = (json_load *)arg;
    return srb_json_read(&l->reader, RSTRING_PTR(l->bytes), (size_t)RSTRING_LEN(l->bytes));
}

static VALUE json_load_ensure(VALUE arg)
{
    srb_json_close(&((json_load *)arg)->reader);
    return Qnil;
}

/* Native.load(bytes): what the JSON text says; keys are frozen. */
static VALUE native_load(VALUE self, VALUE bytes)
{
    json_load l;
    VALUE value;
    (void)self;
    l.bytes = rb_str_new_frozen(StringValue(bytes));
    srb_json_open(&l.reader);
    value = rb_ensure(json_load_body, (VALUE)&l, json_load_ensure, (VALUE)&l);
    RB_GC_GUARD(l.bytes);
    return value;
}

/* Native.check_json(bytes, root): raises Invalid for what a push would refuse of the text. */
static VALUE native_check_json(VALUE self, VALUE bytes, VALUE root)
{
    seriatim_error error;
    int status;
    (void)self;
    StringValue(bytes);
    status = srt_json_check(seriatim_default_allocator(), RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes),
                            StringValueCStr(root), SRT_JSON_DEPTH, SRT_JSON_REFUSE, &error);
    RB_GC_GUARD(bytes);
    if (status == SERIATIM_NOMEM)
        rb_memerror();
    if (status != SERIATIM_OK)
        srb_invalid(rb_utf8_str_new_cstr(error.message));
    return Qnil;
}

void srb_init_json(void)
{
    rb_define_singleton_method(srb_native, "dump", native_dump, 2);
    rb_define_singleton_method(srb_native, "load", native_load, 1);
    rb_define_singleton_method(srb_native, "check_json", native_check_json, 2);
}
