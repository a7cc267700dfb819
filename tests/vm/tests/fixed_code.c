// SPDX-License-Identifier: GPL-2.0-only
/*
 * fixed_code PROGRAM ARGS...: run a program under a seccomp(2) filter, so that
 * mprotect() for writable code fails with EPERM, as in some sandboxes.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define WRITABLE_CODE (PROT_WRITE | PROT_EXEC)
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
	    LOAD(nr),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 4),
	    LOAD(args[2]),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, WRITABLE_CODE),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WRITABLE_CODE, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 99;
	execv(argv[1], argv + 1);
	return 98;
}
