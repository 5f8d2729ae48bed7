"""The handler through which XLA calls compiled functions, in C, against the header that jaxlib ships.

One handler serves all functions: an attribute of the call names the program. Tables of calls, and the arenas that they
hold, are used again. Where a call fails, Python says why."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from egshape.errors import EgshapeError, MissingDependency
from egshape.lower.common import cache
from egshape.runtime.abi.call import ERROR_WORDS, WORDS
from egshape.runtime.core.call import UNBOUNDED

NAME = "egshape_call"
ATTRIBUTE = "program"
_MESSAGE = 4096

SOURCE = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "xla/ffi/api/c_api.h"

enum { ENUM };

typedef struct call { struct call *next; int64_t words[]; } call;
typedef struct program {
  int64_t id;
  int32_t (*entry)(int64_t *words);
  void (*explain)(int64_t id, int32_t code, const int64_t *error, char *text, int64_t size);
  int64_t inputs, outputs, input_axes, output_axes;
  int64_t fixed[WORDS];
  pthread_mutex_t lock;
  call *calls;
  struct program *next;
} program;

static program *programs;
static _Alignas(64) char nothing[64];

int32_t egshape_register(int64_t id, void *entry, void *explain, const int64_t *counts, const int64_t *fixed) {
  program *p = calloc(1, sizeof *p);
  if (!p || pthread_mutex_init(&p->lock, NULL)) return 1;
  p->id = id;
  p->entry = (int32_t (*)(int64_t *))entry;
  p->explain = (void (*)(int64_t, int32_t, const int64_t *, char *, int64_t))explain;
  p->inputs = counts[0], p->outputs = counts[1], p->input_axes = counts[2], p->output_axes = counts[3];
  memcpy(p->fixed, fixed, sizeof p->fixed);
  p->next = __atomic_load_n(&programs, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(&programs, &p->next, p, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
  return 0;
}

static XLA_FFI_Error *failed(XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args args = {0};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text;
  args.errc = code;
  return frame->api->XLA_FFI_Error_Create(&args);
}

static program *asked(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Attrs *attrs = &frame->attrs;
  for (int64_t k = 0; k < attrs->size; k++) {
    XLA_FFI_ByteSpan *name = attrs->names[k];
    if (attrs->types[k] != XLA_FFI_AttrType_SCALAR || name->len != strlen(ATTRIBUTE) ||
        memcmp(name->ptr, ATTRIBUTE, name->len)) continue;
    XLA_FFI_Scalar *scalar = attrs->attrs[k];
    if (scalar->dtype != XLA_FFI_DataType_S64) return NULL;
    int64_t id = *(int64_t *)scalar->value;
    for (program *p = __atomic_load_n(&programs, __ATOMIC_ACQUIRE); p; p = p->next)
      if (p->id == id) return p;
  }
  return NULL;
}

static call *taken(program *p, int64_t words) {
  pthread_mutex_lock(&p->lock);
  call *c = p->calls;
  if (c) p->calls = c->next;
  pthread_mutex_unlock(&p->lock);
  if (c || !(c = calloc(1, sizeof *c + 8 * words))) return c;
  memcpy(c->words, p->fixed, sizeof p->fixed);
  return c;
}

static void given_back(program *p, call *c) {
  pthread_mutex_lock(&p->lock);
  c->next = p->calls;
  p->calls = c;
  pthread_mutex_unlock(&p->lock);
}

XLA_FFI_Error *HANDLER(XLA_FFI_CallFrame *frame) {
  for (XLA_FFI_Extension_Base *each = frame->extension_start; each; each = each->next)
    if (each->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)each)->metadata;
      about->api_version.major_version = XLA_FFI_API_MAJOR;
      about->api_version.minor_version = XLA_FFI_API_MINOR;
      about->traits = 0;
      return NULL;
    }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  program *p = asked(frame);
  if (!p) return failed(frame, XLA_FFI_Error_Code_NOT_FOUND,
                        "this program calls an egshape function of another process");
  if (frame->args.size != p->inputs || frame->rets.size != p->outputs)
    return failed(frame, XLA_FFI_Error_Code_INTERNAL, "a wrong number of buffers");
  int64_t tables[] = {p->inputs, p->input_axes, p->outputs, p->outputs, p->output_axes, ERROR_WORDS};
  int64_t places[] = {AT_INPUTS, AT_SIZES, AT_OUTPUTS, AT_ROOMS, AT_SHAPES, AT_ERROR}, *starts[6], words = WORDS;
  for (int k = 0; k < 6; k++) words += tables[k];
  call *c = taken(p, words);
  if (!c) return failed(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "there is not enough memory");
  words = WORDS;
  for (int k = 0; k < 6; k++) {
    starts[k] = c->words + words;
    c->words[places[k]] = (int64_t)starts[k];
    words += tables[k];
  }
  for (int64_t k = 0, at = 0; k < p->inputs; k++) {
    XLA_FFI_Buffer *buffer = frame->args.args[k];
    starts[0][k] = (int64_t)(buffer->data ? buffer->data : nothing);
    for (int64_t axis = 0; axis < buffer->rank && at < p->input_axes; axis++) starts[1][at++] = buffer->dims[axis];
  }
  for (int64_t k = 0, at = 0; k < p->outputs; k++) {
    XLA_FFI_Buffer *buffer = frame->rets.rets[k];
    starts[2][k] = (int64_t)(buffer->data ? buffer->data : nothing);
    starts[3][k] = UNBOUNDED;
    for (int64_t axis = 0; axis < buffer->rank && at < p->output_axes; axis++) starts[4][at++] = buffer->dims[axis];
  }
  c->words[AT_STRICT] = 1;
  int32_t code = p->entry(c->words);
  XLA_FFI_Error *error = NULL;
  if (code) {
    char text[MESSAGE] = "";
    p->explain(p->id, code, starts[5], text, sizeof text);
    error = failed(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
  }
  given_back(p, c);
  return error;
}
"""


def _source() -> str:
    places = ", ".join(f"AT_{word.upper()} = {place}" for place, word in enumerate(WORDS))
    numbers = {
        "ENUM": f"WORDS = {len(WORDS)}, ERROR_WORDS = {ERROR_WORDS}, {places}",
        "HANDLER": NAME,
        "MESSAGE": _MESSAGE,
        "UNBOUNDED": f"INT64_C({UNBOUNDED})",
        "ATTRIBUTE": f'"{ATTRIBUTE}"',
    }
    return "".join(f"#define {name} {text}\n" for name, text in numbers.items()) + SOURCE


@functools.cache
def library(headers: str) -> ctypes.CDLL:
    """The handler's library, from the cache where it is there. ``headers``: the folder of XLA's C headers.

    Raises MissingDependency where there is no C compiler, EgshapeError (code "link") where it fails."""
    source, command = _source(), shlex.split(os.environ.get("CC", "")) or ["cc"]
    try:
        header = Path(headers, "xla/ffi/api/c_api.h").read_text()
    except OSError as error:
        raise MissingDependency(f"jaxlib has no header of XLA's calls: {error.strerror}", where=headers) from None
    code = cache.cached((source, header, *command), lambda: _made(source, headers, command))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "handler.so")
        file.write_bytes(code)
        return ctypes.CDLL(str(file))


def _made(source: str, headers: str, command: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file, target = Path(folder, "handler.c"), Path(folder, "handler.so")
        file.write_text(source)
        whole = [
            *command,
            "-std=c11",
            "-O2",
            "-shared",
            "-fPIC",
            f"-I{headers}",
            "-o",
            str(target),
            str(file),
            "-lpthread",
        ]
        try:
            done = subprocess.run(whole, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MissingDependency(f"cannot run {command[0]!r}: {error.strerror}", hint="CC chooses another") from None
        if done.returncode:
            raise EgshapeError(
                f"compiling with {command[0]!r} failed: {done.stderr.strip()[:400]}",
                code="link",
                hint="CC chooses another",
            )
        return target.read_bytes()
