/* What every unit test includes: cmocka wants these in this order. */
#ifndef MPP_TESTS_UNIT_H
#define MPP_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last */
#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
