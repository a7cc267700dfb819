/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that outlives a callback: the knobs the agent sets, the tables it writes, what each CPU
 * publishes, the queues' hints and the masks. It is the only file that defines a map or a global,
 * because a global defined in two units survives linking as two variables of which the agent writes one
 * and BPF reads the other.
 *
 * Sharing. cpu_info is written by the agent and read everywhere. A cpu_ctx has one writer for each
 * field: its own CPU, except where a comment names another. Readers on other CPUs tolerate values that
 * are one event old: whatever they lead to is checked again on the CPU that acts.
 */
#ifndef BIAS_STATE_BPF_H
#define BIAS_STATE_BPF_H

#include <scx/common.bpf.h>
#include <bias/abi.h>
#include <bias/clock.h>
#include <bias/fair.h>

/* Knobs, constant once loaded. Times are wall-clock times unless they say otherwise. */
const volatile u32 nr_cpus = 1;		/* possible CPUs, at most BIAS_MAX_CPUS */
const volatile u32 nr_llcs = 1;		/* last-level caches, at most BIAS_MAX_LLCS */
const volatile bool smt_active = false; /* look for whole idle cores first */
const volatile bool two_classes =
    false;			      /* false: every CPU counts as fast for good, nothing moves for speed */
const volatile bool counting = false; /* some CPU has counters */
const volatile bool partial = false;  /* only opted-in cgroups are ours, see optin.bpf.h */
const volatile bool limited = false;  /* only their tasks have a bias, see limit.bpf.h */
const volatile u32 agent_tgid = 0;    /* the agent's process */

const volatile bool moving = true; /* CPUs move running tasks by themselves, see move.bpf.h */

/*
 * Knobs that the agent may turn while the scheduler runs, and writes before it is attached: their defaults
 * are its own. On pages of their own, for they are read on every path and what is around them in .data
 * is written. A callback may see an old value of one beside a new one of another.
 */
#define KNOB SEC(".data.knobs")
volatile u64 slice_ns KNOB;	       /* slice of a task when nothing waits */
volatile u64 slice_min_ns KNOB;	       /* slice when much waits */
volatile u64 rotate_gap_ns KNOB;       /* difference in vtime at which running tasks change places */
volatile u64 sync_burst_ns KNOB;       /* CPUs whose tasks sleep sooner keep synchronous wakeups local */
volatile u64 window_instructions KNOB; /* instructions of a task that make a window */
volatile u64 borrow_gap_ns KNOB;       /* how far behind the other class must be to go before the own */
volatile u64 unfair_gap_ns KNOB;       /* how far behind a task must be to displace one that gains more */
volatile u32 sample_every KNOB;	       /* one run in so many is counted of a task whose profile is stable */
volatile u32 gain_permille KNOB;       /* a difference in speedup that is worth a move [permille] */
volatile u32 fixed_low
    KNOB; /* what band_low and band_high stay at [permille]; the high one is 0 if they adapt */
volatile u32 fixed_high KNOB;

/* Written by the agent: before attach whole, afterwards field by field. */
struct bias_cpu_info cpu_info[BIAS_MAX_CPUS];

/* Slow CPUs, grouped by LLC, and where each LLC's group starts: what a fast CPU searches for work. */
struct slow_list {
	u32 cpus[BIAS_MAX_CPUS];
	u32 start[BIAS_MAX_LLCS];
	u32 nr;
};

/*
 * The capacity table, twice, see table.bpf.h: what each CPU costs (both copies side by side), what a typical CPU of each class
 * costs, which a speedup is predicted from, the slow CPUs, and whether they go before fast CPUs' siblings.
 */
struct bias_speed speeds[BIAS_MAX_CPUS * BIAS_TABLE_COPIES] __attribute__((aligned(BIAS_CACHE_LINE)));
struct bias_cost class_costs[BIAS_TABLE_COPIES][BIAS_NR_CLASSES];
struct slow_list slow_lists[BIAS_TABLE_COPIES];
/* 1 if a further thread of a busy fast core adds more throughput than a whole slow core. */
u32 fast_sibling_first[BIAS_TABLE_COPIES];
/* Counts the tables; its lowest bit is the copy in force. */
u32 table_seq __attribute__((aligned(BIAS_CACHE_LINE)));

/* How many CPUs a search on a hot path looks at: all of them on most machines, a part on the largest. */
#define MAX_SCAN 64

/* What may be asked of the task a CPU runs. */
enum run_flags {
	RUN_MOVABLE = 1 << 0,  /* it may run elsewhere */
	RUN_ANYWHERE = 1 << 1, /* on every CPU; else on those of run_allowed */
	RUN_TICKED = 1 << 2,   /* it was there at the last tick: worth a migration */
	RUN_BUSY = 1 << 3,     /* some task of ours runs */
};

/* A CPU's counters at a moment, and for how long [ns] their group was enabled and counted until then. */
struct readout {
	struct bias_counts counts;
	u64 enabled_ns;
	u64 running_ns;
};

struct cpu_ctx {
	/* What runs here, for other CPUs to read. */
	u64 run_vtime;	     /* its vtime at the last account */
	u64 began_vtime;     /* its vtime when its slice began */
	u64 run_allowed;     /* the first 64 CPUs of its affinity */
	s32 run_pid;	     /* the last task of ours that ran */
	u32 run_flags;	     /* enum run_flags; 0 when no task of ours runs */
	u32 run_speedup;     /* its predicted speedup [permille], 0 if unknown */
	u32 run_cost;	     /* what its work costs here [permille of the best CPU] */
	u32 run_shared_cost; /* the same while a sibling is busy */
	u32 run_weight;	     /* its weight at the last account, from the top of the tree */

	u32 move_to;	     /* where the running task shall go, see move.bpf.h; set by whoever asks */
	s32 move_pid;	     /* for whom that is meant if the agent asks, see swap.bpf.h */
	s32 move_partner;    /* and who shall come here in exchange */
	s32 seat_pid;	     /* who sits here: the last task that two ticks saw */
	u32 seat_speedup;    /* its predicted speedup [permille] */
	u32 kthread_waiting; /* a kthread was queued locally; set by its waker */
	u32 pinned_used;     /* the pinned queue has held tasks; set by whoever queues one */
	u32 took_shared;     /* the task that runs next is the head of a shared queue */
	u32 yielded;	     /* the running task called sched_yield */
	u32 onlined;	     /* how often the CPU came online; the agent then opens its counters anew */
	u32 priced_seq;	     /* the table that run_cost was made of */
	u32 looked_llc;	     /* the LLC whose queue was looked at last for tasks that are behind */

	u64 start_exec_ns; /* sum_exec_runtime up to which the running task is charged */
	u64 began_exec_ns; /* sum_exec_runtime when it began to run */
	u64 ran_ns;	   /* time it was charged for since then */
	u64 burst_ns;	   /* average run time of tasks that went to sleep here */
	u32 sync_wakeups;  /* how many there were */
	u64 woke_ns;	   /* when the running task made a synchronous wakeup that is timed; 0: it did not */
	u64 after_ns;	   /* for how long tasks here ran on after that, on average, in reference time */

	/* Counting, see count.bpf.h. */
	u32 count_next_pid;  /* who is counted from the next switch on; 0: nobody */
	u32 counting_pid;    /* whose stretch is under way */
	u32 uncounted_ticks; /* ticks that did not close the stretch, its task being known well */
	u32 run_stable;	     /* the running task's profile is stable */
	u64 count_start_ns;
	struct readout count_start;
	/* What stretches added up to, for the agent, which takes their quotient for the CPU's speed. */
	u64 seen_cycles;
	u64 seen_ns;

	u64 ticked_at;	 /* jiffies of the last tick; 0 when the task it was slept or nothing was left */
	u64 wanted_mask; /* all bits if somebody waited for the CPU then */

	s64 weight; /* what became runnable here less what ceased to: only the sum over all CPUs has a meaning */

	u64 stats[BIAS_NR_STATS];
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct cpu_ctx cpu_ctxs[BIAS_MAX_CPUS];

/*
 * What is known of an LLC's shared queues without asking the kernel, see queue.bpf.h. One cache line an
 * LLC.
 */
struct llc_ctx {
	u32 used[BIAS_NR_CLASSES]; /* the queue has held tasks */
	u32 waiting;		   /* something waits, approximately */
	u32 node;		   /* its NUMA node; written by the agent before attach */
	u64 waiting_since_ns;	   /* since when ticks have found it so, by the monotonic clock; 0: not */
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct llc_ctx llc_ctxs[BIAS_MAX_LLCS];

/* The machine's vtime, where new tasks start, see account.bpf.h. */
u64 vtime_now __attribute__((aligned(BIAS_CACHE_LINE)));
/* The weight of all that is runnable, and when (jiffies) it was last added up. */
u64 total_weight __attribute__((aligned(BIAS_CACHE_LINE))) = BIAS_WEIGHT_NICE_0;
u64 total_weight_at;
/* vtime_now is ahead of what runs and does not move, see account.bpf.h. */
u32 clock_waits;

/* The average speedup of what runs, and the band around it beyond which tasks have a bias, see place.bpf.h. */
u32 average_speedup __attribute__((aligned(BIAS_CACHE_LINE)));
u32 band_low;
u32 band_high = ~0u;
/* 1 + the slow CPU whose task gains least, a hint; 0: none known. */
u32 spare_cpu;

/* What is known of a task. */
struct task_ctx {
	struct bias_profile profile;
	struct bias_window window; /* filling */
	u64 fast_ns;		   /* time on fast CPUs */
	u64 slow_ns;		   /* time on slow CPUs */
	u32 uncounted;		   /* runs since one was counted */
	u32 brief;		   /* its last run was too short to tell much */
	u32 reason;		   /* enum bias_reason */
	u32 in_transit;		   /* it was moved while it ran and has not run since */
	u32 swapped;		   /* the last such move was the agent's wish */
	u64 moved_ns;		   /* when it was, by the monotonic clock */
	u64 lost_ns;		   /* time from such moves to running again, in all */
	struct bias_work work;	   /* what it did of late */
	u64 cgroup_id;		   /* where it was last seen, see limit.bpf.h */
	u32 cgroup_epoch;	   /* which state of optin_cgroups that was compared with */
	u32 inside;		   /* and whether it has a bias there */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* The CPUs' counters: BIAS_NR_COUNTERS for each. The agent sizes and fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, BIAS_NR_COUNTERS);
	__type(key, u32);
	__type(value, u32);
} events SEC(".maps");

/* CPUs by class, for each LLC and, at index nr_llcs, for the machine. */
struct domain {
	struct bpf_cpumask __kptr *mask[BIAS_NR_CLASSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BIAS_MAX_LLCS + 1);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

/* Scratch for intersections with a task's affinity. */
struct scratch {
	struct bpf_cpumask __kptr *mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/*
 * Tasks that are runnable in a cgroup, see group.bpf.h. Indexed by the cgroup's css id; 0 and 1 are
 * unused.
 */
#define MAX_GROUPS 16384

struct group_ctx {
	s64 active;  /* weights of its runnable tasks and active children */
	u64 counted; /* what its parent's active holds for it */
};

struct group_ctx groups[MAX_GROUPS];

/*
 * What cgroups are followed for (enum bias_follow) by their numbers, and what the agent should look at, see optin.bpf.h.
 * Made only where they are used. The agent writes the first and empties the second.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * BIAS_MAX_OPTED_IN);
	__type(key, u64);
	__type(value, u32);
} optin_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} optin_hints SEC(".maps");

/* Hints there was no room for. */
u64 optin_lost;
/* Counts the changes of optin_cgroups, from 1 on. Written by the agent. */
u32 cgroups_epoch;

UEI_DEFINE(uei);

/*
 * Index @i brought below @size, a power of two, in a way that the verifier sees and the compiler cannot
 * move. Indices are in range anyway: a number that no CPU has can only come from a table that the agent
 * got wrong, and then must not end the scheduler.
 */
#define bounded(i, size)                                                                                     \
	({                                                                                                   \
		u64 ___i = (u32)(i);                                                                         \
		_Static_assert(((size) & ((size) - 1)) == 0, "a mask needs a power of two");                 \
		asm volatile("%0 &= %1" : "+r"(___i) : "i"((size) - 1));                                     \
		___i;                                                                                        \
	})

static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	return &cpu_ctxs[bounded(cpu, BIAS_MAX_CPUS)];
}

static __always_inline struct bias_cpu_info *cpu_info_of(s32 cpu)
{
	return &cpu_info[bounded(cpu, BIAS_MAX_CPUS)];
}

/* NULL for a task that there was no memory for: nothing is known of it. */
static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, 0);
}

/* The entry of @cpu in the table in force. */
static __always_inline const struct bias_speed *speed_of(s32 cpu)
{
	return &speeds[bounded(((u32)cpu << 1) | (READ_ONCE(table_seq) & 1),
			       BIAS_MAX_CPUS * BIAS_TABLE_COPIES)];
}

static __always_inline bool cpu_is_slow(s32 cpu)
{
	return two_classes && speed_of(cpu)->class_ == BIAS_SLOW;
}

static __always_inline enum bias_class class_of(s32 cpu)
{
	return cpu_is_slow(cpu) ? BIAS_SLOW : BIAS_FAST;
}

static __always_inline u32 llc_of(s32 cpu)
{
	return cpu_info_of(cpu)->llc;
}

/* Return true if a second thread of a fast core adds more than a slow core. */
static __always_inline bool sibling_beats_slow_core(void)
{
	return fast_sibling_first[READ_ONCE(table_seq) & 1];
}

/* How many threads of a core are looked at beside a CPU: all but one of four. */
#define MAX_SIBLINGS 3

/* Return true if a task of ours runs on a sibling of @cpu. */
static __always_inline bool core_is_shared(s32 cpu)
{
	u32 sibling = cpu;

	if (!smt_active)
		return false;
#pragma unroll
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		sibling = cpu_info_of(sibling)->sibling;
		if (sibling == cpu)
			return false;
		if (READ_ONCE(cpu_ctx_of(sibling)->run_flags) & RUN_BUSY)
			return true;
	}
	return false;
}

/* Count an event on this CPU. */
static __always_inline void stat_add(enum bias_stat stat, u64 n)
{
	cpu_ctx_of(bpf_get_smp_processor_id())->stats[stat] += n;
}

static __always_inline void stat_inc(enum bias_stat stat)
{
	stat_add(stat, 1);
}

/* What only kernels have whose readers of RCU may be preempted. */
struct task_struct___preempt_rcu {
	int rcu_read_lock_nesting;
} __attribute__((preserve_access_index));

/*
 * Has @p called migrate_disable()? For the current task the count may be our own: entering a BPF program
 * disables migration, always where readers of RCU may be preempted, and before 6.18 elsewhere, too, but
 * for kernels with patches of their own, for which scx_lib_init_probe has tried it. (The headers' own
 * is_migration_disabled() asks the kernel's configuration, which no file tells on Debian's kernels in a
 * VM; that it exists is told by a field of task_struct.)
 *
 * @programs are nested: ops.enqueue is called within ops.cpu_release.
 */
static __always_inline bool cannot_migrate(const struct task_struct *p, u32 programs)
{
	if (!bpf_core_field_exists(p->migration_disabled) || !p->migration_disabled)
		return false;
	if (p->migration_disabled > programs)
		return true;
	if (bpf_core_field_exists(((struct task_struct___preempt_rcu *)p)->rcu_read_lock_nesting) ||
	    (LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 18, 0) && __scx_prolog_disables_migration))
		return bpf_get_current_task_btf() != p;
	return true;
}

/* Return true if @p may run on one CPU only, seen from so many nested @programs. */
static __always_inline bool is_pinned_within(const struct task_struct *p, u32 programs)
{
	return p->nr_cpus_allowed == 1 || cannot_migrate(p, programs);
}

static __always_inline bool is_pinned(const struct task_struct *p)
{
	return is_pinned_within(p, 1);
}

static __always_inline bool is_restricted(const struct task_struct *p)
{
	return p->nr_cpus_allowed < nr_cpus;
}

#endif
