#include "templates/schedule.cuh"
