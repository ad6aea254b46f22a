# Builds the extension from a checkout (formats/ at the top) or from the packaged gem (formats/ beside this file).
require "mkmf"

here = __dir__
formats = [File.join(here, "formats"), File.expand_path("../../../formats", here)].find { |d| File.exist?(File.join(d, "mpp_format.h")) }
abort "mpp_recorder: formats/ not found beside #{here}" unless formats

abort "mpp_recorder: MRI is needed, this is #{RUBY_ENGINE}" unless RUBY_ENGINE == "ruby"
have_library("zstd", "ZSTD_compressCCtx", "zstd.h") or abort "mpp_recorder: libzstd is missing (Debian: libzstd-dev)"
have_library("xxhash", "XXH3_64bits", "xxhash.h") or abort "mpp_recorder: libxxhash is missing (Debian: libxxhash-dev)"
have_library("pthread", "pthread_create", "pthread.h")
have_library("m", "log", "math.h")

# See compat.h: what differs between Rubies.
have_func("rb_postponed_job_preregister", "ruby/debug.h")
have_func("rb_gc_obj_slot_size")
have_func("rb_objspace_each_objects")
%w[ROBJECT_EMBED ROBJECT_HEAP RUBY_FL_EXIVAR].each { |name| have_const(name, "ruby.h") }

own = Dir.children(here).grep(/\.c\z/)
shared = %w[error.c header.c block.c record.c crc32c.c writer.c]
$srcs = own + shared
$objs = $srcs.map { |f| f.sub(/\.c\z/, ".#{$OBJEXT}") }
$VPATH << here << formats
$INCFLAGS << " -I#{here} -I#{formats}"
$CFLAGS << " -std=gnu11 -D_GNU_SOURCE -O2 -g -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
$warnflags = ""
if ENV["MPP_SAN"]
  $CFLAGS << " -fsanitize=#{ENV["MPP_SAN"]} -fno-omit-frame-pointer"
  $LDFLAGS << " -fsanitize=#{ENV["MPP_SAN"]}"
end
version = File.read(File.join(here, "../../lib/mpp_recorder/version.rb"))[/VERSION = "([^"]+)"/, 1]
$defs << %(-DMPP_RECORDER_VERSION='"#{version}"')
create_makefile("mpp_recorder/mpp_recorder")
