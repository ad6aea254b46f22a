# The benchmark's control: what Ruby itself asks of anyone who wants the stack of every object.
require "mkmf"
$CFLAGS << " -O2"
create_makefile("floor")
