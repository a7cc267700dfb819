#!/bin/sh
# shell.sh TEXT: evaluate a short text with the definitions of common.sh.
. "${0%/*}/common.sh"

eval "$1"
