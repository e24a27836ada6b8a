#include "templates/args.h"
