/* The only file that is compiled anew when the commit changes. */
#include "grs.h"

#include "stamp.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *grs_version(void) {
    return TEXT(GRS_VERSION_MAJOR) "." TEXT(GRS_VERSION_MINOR) "." TEXT(GRS_VERSION_PATCH) " (commit " GRS_COMMIT
#if GRS_DIRTY
                                                                                           ", dirty"
#endif
                                                                                           ")";
}
