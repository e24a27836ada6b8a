// Stand-in for templates/ptx.cuh: lets the host compiler read those templates that are arithmetic alone, which
// tests/test_schedule.cc runs. It has no instruction: a template that uses one does not compile here.
#pragma once

#include "templates/args.h"

#define GRS_DEVICE inline
