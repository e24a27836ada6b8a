#include "templates/signal.cuh"
