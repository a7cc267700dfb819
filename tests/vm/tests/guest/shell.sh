#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shell.sh TEXT: evaluate a short text with the definitions of common.sh.
. "${0%/*}/common.sh"

eval "$1"
