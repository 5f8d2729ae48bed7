/* A check that names its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds) ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), exit(1)))
