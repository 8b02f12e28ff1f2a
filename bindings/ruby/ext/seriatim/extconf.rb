# frozen_string_literal: true

# Compiles this folder and the core, as its one unit all.c, into seriatim/seriatim_native.
#
#   --with-hiredis-dir=DIR   hiredis in an unusual place
#   --without-openssl        no rediss://
#   SANITIZE=1               ASan and UBSan
require "mkmf"

core = "$(srcdir)/../../../../core"
core_files = Dir[File.join(__dir__, "../../../../core/{include,src}/**/*.{h,c,inc}")]

def abort_without_hiredis
  abort "Seriatim needs hiredis: apt-get install libhiredis-dev | brew install hiredis | apk add hiredis-dev"
end

dir_config("hiredis")
pkg_config("hiredis")
abort_without_hiredis unless have_header("hiredis/read.h") && have_library("hiredis", "redisReaderCreateWithFunctions")

if with_config("openssl", true)
  dir_config("openssl")
  pkg_config("openssl")
  tls = have_header("openssl/ssl.h") && have_library("crypto", "BIO_new") && have_library("ssl", "SSL_new")
  $defs << "-DSERIATIM_WITH_OPENSSL" if tls
  warn "Seriatim is built without TLS, so rediss:// will be refused. To have it: apt-get install libssl-dev pkg-config, then install again" unless tls
end
have_library("pthread", "pthread_create")

append_cflags("-fvisibility=hidden")
append_ldflags("-Wl,--exclude-libs,ALL")

if ENV["SANITIZE"]
  flags = " -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
  $CFLAGS << flags << " -O1"
  # Ruby's exceptions jump over our frames without ASan's knowledge; what it then holds of the stack is wrong.
  $CFLAGS << " --param=asan-stack=0" if try_cflags("-fsanitize=address --param=asan-stack=0")
  $DLDFLAGS << flags
end

$VPATH << "#{core}/src"
$INCFLAGS << " -I#{core}/include -I#{core}/src"
$srcs = Dir[File.join(__dir__, "*.c")].sort.map { |path| File.basename(path) } + ["all.c"]
$objs = $srcs.map { |name| name.sub(/c\z/, RbConfig::CONFIG["OBJEXT"]) }

create_makefile("seriatim/seriatim_native")

# all.c includes the rest of the core, which make cannot see. The rule without commands lets a file be renamed or removed later.
File.write("Makefile", "\n$(OBJS): #{core_files.join(" ")}\n\n#{core_files.join(" ")}:\n", mode: "a")
