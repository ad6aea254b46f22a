#include "recorder.h"

RUBY_FUNC_EXPORTED void Init_mpp_recorder(void);

void Init_mpp_recorder(void)
{
    mpp_api_init(rb_define_module("MppRecorder"));
    mpp_lifecycle_init();
}
