/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * All state that outlives a callback: the agent's knobs and tables, what each
 * CPU publishes, what is known of the DSQs, and the CPU masks.
 *
 * This is the only file that defines a map or a global. A global that two units
 * define survives linking as two variables: the agent would write one of them,
 * and BPF would read the other.
 *
 * The agent writes cpu_info, and every CPU reads it. Each field of a cpu_ctx
 * has one writer: its own CPU, unless a comment names another. Readers on other
 * CPUs tolerate values that are one event old, because the CPU that acts on a
 * decision checks it again.
 */
#ifndef BIAS_STATE_BPF_H
#define BIAS_STATE_BPF_H

#include <scx/common.bpf.h>
#include <bias/abi.h>
#include <bias/clock.h>
#include <bias/vtime.h>

/* Knobs that are constant once loaded. */

/* Possible CPUs, at most BIAS_MAX_CPUS. */
const volatile u32 nr_cpus = 1;
/* Last-level caches, at most BIAS_MAX_LLCS. */
const volatile u32 nr_llcs = 1;
/* One more than the highest NUMA node, at most BIAS_MAX_NODES. */
const volatile u32 nr_nodes = 1;
/* True if cores have several threads: whole idle cores are preferred. */
const volatile bool smt_active = false;
/* False if every CPU counts as fast for good: no task migrates for speed. */
const volatile bool two_classes = false;
/* Some CPU has counters. */
const volatile bool counting = false;
/* Only opted-in cgroups are scheduled here, see optin.bpf.h. */
const volatile bool partial = false;
/* Only tasks of opted-in cgroups have a bias, see limit.bpf.h. */
const volatile bool limited = false;
/* The agent's process. */
const volatile u32 agent_tgid = 0;

/* Some CPU is one of nohz_full, see nohz.bpf.h. */
const volatile bool nohz_full = false;

/* CPUs request migrations of running tasks by themselves, see move.bpf.h. */
const volatile bool moving = true;

/*
 * Knobs that the agent may change while the scheduler runs. It writes them
 * before attach, so the defaults are the agent's. They have pages of their own:
 * every path reads them, and the data around them in .data is written. A
 * callback may see the old value of one knob and the new value of another. Gaps
 * are differences in vtime.
 */
#define KNOB SEC(".data.knobs")
/* Slice of a task if no task waits. */
volatile u64 slice_ns KNOB;
/* Slice if many tasks wait. */
volatile u64 slice_min_ns KNOB;
/* Gap at which running tasks rotate. */
volatile u64 rotate_gap_ns KNOB;
/* CPUs whose tasks sleep sooner keep synchronous wakeups local. */
volatile u64 sync_burst_ns KNOB;
/* Instructions of a task that make a window. */
volatile u64 window_instructions KNOB;
/* Lag at which a CPU steals from the other class's DSQ. */
volatile u64 steal_lag_ns KNOB;
/* Lag at which a task takes the CPU of one that gains more. */
volatile u64 unfair_gap_ns KNOB;
/* Most by which the progress of equal tasks may differ [permille]. */
volatile u32 max_unfairness_permille KNOB;
/* One run in sample_every is counted once a task's profile is stable. */
volatile u32 sample_every KNOB;
/* Difference in speedup that is worth a migration [permille]. */
volatile u32 gain_permille KNOB;
/*
 * Fixed values of band_low and band_high [permille]. The high one is 0 if the
 * band adapts.
 */
volatile u32 fixed_low KNOB;
volatile u32 fixed_high KNOB;

/* The agent writes all of it before attach, and single fields later. */
struct bias_cpu_info cpu_info[BIAS_MAX_CPUS];

/*
 * CPUs below the best tier, for the searches of better CPUs: ordered by node,
 * from the worst tier to the best, and by LLC. Each LLC has the part of its
 * node: where it begins, how many CPUs have a worse tier than n, which are the
 * first ones, and the index of the LLC's own first CPU. For each class it also
 * has 1 + the LLC of the node in which biased tasks wait, or 0 if none has CPUs
 * of that class.
 */
struct slow_group {
	u32 first;
	u32 start;
	u32 worse[BIAS_NR_TIERS];
	u32 home[BIAS_NR_CLASSES];
};

struct slow_list {
	u32 cpus[BIAS_MAX_CPUS];
	struct slow_group groups[BIAS_MAX_LLCS];
};

/*
 * The capacity table in two copies, see table.bpf.h. It holds the cost of each
 * CPU, the cost of a typical CPU of each class, and the list of CPUs below the
 * best tier. Both copies of a CPU's entry are adjacent. Speedups are predicted
 * from the typical costs.
 */
struct bias_speed speeds[BIAS_MAX_CPUS * BIAS_TABLE_COPIES] __attribute__((aligned(BIAS_CACHE_LINE)));
struct bias_cost class_costs[BIAS_TABLE_COPIES][BIAS_NR_CLASSES];
struct slow_list slow_lists[BIAS_TABLE_COPIES];
/*
 * 1 if a second thread on a busy fast core adds more throughput than a whole
 * slow core. Such threads then go before slow CPUs.
 */
u32 fast_sibling_first[BIAS_TABLE_COPIES];
/* Bit n: a CPU has tier n. */
u32 tiers_used[BIAS_TABLE_COPIES];
/* Bit n: CPUs of tier n are only a few percent worse than those before. */
u32 near_tiers[BIAS_TABLE_COPIES];
/* Count of tables so far. Its lowest bit selects the copy in force. */
u32 table_seq __attribute__((aligned(BIAS_CACHE_LINE)));

/*
 * CPUs that a search on a hot path visits at most: all of them on most
 * machines, a part of them on the largest.
 */
#define MAX_SCAN 64

/* Properties of the task that a CPU runs, for requests by other CPUs. */
enum run_flags {
	RUN_MOVABLE = 1 << 0,  /* it can run on other CPUs, too */
	RUN_ANYWHERE = 1 << 1, /* on every CPU; else on those in run_allowed */
	RUN_TICKED = 1 << 2,   /* the last tick saw it: worth a migration */
	RUN_BUSY = 1 << 3,     /* a SCHED_EXT task runs */
	RUN_UNTICKED = 1 << 4, /* without a tick, see nohz.bpf.h */
	RUN_ROAMS = 1 << 5,    /* it may leave its node, see leaves_node() */
};

/*
 * A reading of a CPU's counters, and for how long [ns] their perf group had
 * been enabled and running by then.
 */
struct readout {
	struct bias_counts counts;
	u64 enabled_ns;
	u64 running_ns;
};

/*
 * State of a CPU, by cache line. What other CPUs write is apart from what they
 * read at each search, and both are apart from what only the CPU itself uses.
 */
struct cpu_ctx {
	/* The running task. This CPU writes it, other CPUs read it. */
	u64 run_vtime;	     /* vtime at the last charge */
	u64 began_vtime;     /* vtime when its slice began */
	u64 run_allowed;     /* first 64 CPUs of its affinity */
	s32 run_pid;	     /* the last SCHED_EXT task that ran */
	u32 run_flags;	     /* enum run_flags; 0 if no SCHED_EXT task runs */
	u32 run_speedup;     /* predicted [permille]; 0: unknown, 1: it spins */
	u32 run_spun;	     /* it spun lately */
	u32 run_rate;	     /* charge rate [permille of the reference CPU] */
	u32 run_shared_rate; /* charge rate while a sibling is busy */
	u32 run_weight;	     /* effective weight at the last charge */
	/* jiffies of the last tick; 0 after its task slept or none was left */
	u64 ticked_at;
	u64 contended_mask; /* all ones if the CPU was contended then */

	/*
	 * Any CPU writes these. Move requests, see move.bpf.h: any CPU may
	 * write move_to. bias_swap_ask() also writes move_pid and
	 * move_partner.
	 */
	u32 move_to __attribute__((aligned(BIAS_CACHE_LINE)));
	u32 offered;	     /* 1 + CPU that woke this one to pull, or 0 */
	s32 move_pid;	     /* task of a planned swap, see swap.bpf.h */
	s32 move_partner;    /* the task that comes here in exchange */
	u32 kthread_waiting; /* a kthread waits locally; its waker sets this */
	u32 pinned_used;     /* the pinned DSQ was used */
	u32 onlined;	     /* times online; agent then reopens counters */
	u32 is_offline;	     /* its idle mark means nothing */
	u64 arrival;	     /* task on its way here, see arrival.bpf.h, or 0 */

	/*
	 * Only this CPU writes the rest. Others read the resident task, which
	 * is the last that two ticks saw, and sums.
	 */
	s32 resident_pid __attribute__((aligned(BIAS_CACHE_LINE)));
	u32 resident_speedup; /* predicted speedup of that task [permille] */
	u32 took_shared;      /* 1 + index of the DSQ that was served, or 0 */
	u32 yielded;	      /* the running task called sched_yield() */
	u32 rate_seq;	      /* table_seq that run_rate was computed from */
	u32 looked_llc;	      /* LLC last checked for lagging tasks */
	u32 untick_pid;	      /* task that starts without a tick, or 0 */
	u32 put_back;	      /* the task that ran went to a shared DSQ */

	u64 took_at;	   /* jiffies of the last start from a shared DSQ, about */
	u64 start_exec_ns; /* sum_exec_runtime at the last charge */
	u64 began_exec_ns; /* sum_exec_runtime when the task began to run */
	u64 ran_ns;	   /* time charged since then */
	u64 unshared_ns;   /* work that vtime_now does not contain yet */
	u64 burst_ns;	   /* average run time of tasks that slept here */
	u32 sync_wakeups;  /* synchronous wakeups made here */
	u32 looked_slow;   /* where the next search for a task begins */
	u32 looked_far;	   /* LLC of the last search of other nodes */
	u64 looked_ns;	   /* run time here at the last search for a rotation */
	u64 woke_ns;	   /* when the timed one was made; 0: none */
	u64 after_ns;	   /* average reference time from then to the stop */

	/* Counting, see count.bpf.h. */
	u32 count_next_pid;  /* to count from the next switch on; 0: none */
	u32 counting_pid;    /* task of the open interval; 0: none */
	u32 uncounted_ticks; /* ticks skipped while the profile is stable */
	u32 run_stable;	     /* the running task's profile is stable */
	u32 began_at_tick;   /* the open interval did, not at a switch */
	u64 count_start_ns;
	struct readout count_start;
	/*
	 * Sums over valid intervals. The agent takes their quotient as the
	 * CPU's clock rate.
	 */
	u64 seen_cycles;
	u64 seen_ns;

	/*
	 * Load, see clock_request.bpf.h, in units of 1 / SCX_CPUPERF_ONE. Times
	 * are of the CPU's task clock, which is that of exec_start.
	 */
	u64 load_at_ns;	   /* when the load was last updated */
	u64 paused_ns;	   /* pauses since then */
	u64 busy_since_ns; /* when the last pause ended */
	u64 stopped_ns;	   /* when the last SCHED_EXT task stopped */
	u32 load;	   /* average share of busy time */
	u32 waived;	   /* share of the maximum clock not requested */
	/* clock_timer_count when the CPU began to idle; 0: it did not */
	u32 idle_count;

	/*
	 * Weight that became runnable here minus weight that ceased to be. Only
	 * the sum over all CPUs is meaningful.
	 */
	s64 weight;
	/* The same of one cgroup, not yet added to its sum (group.bpf.h). */
	s64 owed_weight;
	u32 owed_group; /* index of that cgroup */

	u64 stats[BIAS_NR_STATS];
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct cpu_ctx cpu_ctxs[BIAS_MAX_CPUS];

/*
 * What is known of an LLC's shared DSQs without a call into the kernel, see
 * queue.bpf.h. One cache line per LLC.
 */
struct llc_ctx {
	u32 used[BIAS_NR_CLASSES]; /* the DSQ has held tasks */
	u32 waiting;		   /* tasks wait, approximately */
	/* NUMA node. The agent writes it before attach. */
	u32 node;
	/*
	 * Since when ticks have found tasks waiting, on the monotonic clock; 0
	 * if no task waits.
	 */
	u64 waiting_since_ns;
	/* overdue_before when overdue tasks were last looked for */
	u64 looked_before;
	/* vtime of the last task taken from each DSQ, see join.bpf.h */
	u64 taken_vtime[BIAS_NR_CLASSES];
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct llc_ctx llc_ctxs[BIAS_MAX_LLCS];

/*
 * Bit n: the field `waiting` of LLC n is set. Kept if there are several LLCs.
 * In one line, so that a CPU which is about to idle reads those of others only
 * if tasks wait there.
 */
u64 waiting_llcs[BIAS_MAX_LLCS / 64] __attribute__((aligned(BIAS_CACHE_LINE)));

/* Global vtime, see account.bpf.h. */
u64 vtime_now __attribute__((aligned(BIAS_CACHE_LINE)));
/* Weight of all runnable tasks, and when (jiffies) it was last added up. */
u64 total_weight __attribute__((aligned(BIAS_CACHE_LINE))) = BIAS_WEIGHT_NICE_0;
u64 total_weight_at;
/* CPUs that were busy then. */
u32 nr_busy;
/* 1 while vtime_now is ahead of the running tasks and holds. */
u32 clock_holds;
/*
 * Tasks that became runnable before this (jiffies) are overdue, see
 * overdue.bpf.h. The last mark and its time (monotonic clock): the CPU that
 * adds up total_weight writes them.
 */
u64 overdue_before;
u64 marked;
u64 marked_ns;

/*
 * Average speedup of running tasks, and the band around it beyond which tasks
 * have a bias, see classify.bpf.h.
 */
u32 average_speedup __attribute__((aligned(BIAS_CACHE_LINE)));
u32 band_low;
u32 band_high = ~0u;
/*
 * 1 + the slow CPU that is nominated as victim; 0 if there is none. Its task
 * gains least, as far as is known.
 */
u32 victim_cpu;
/*
 * 1 + a CPU where another task started before the announced one came, or 0, see
 * arrival.bpf.h.
 */
u32 late_cpu;

/* State of one task. */
struct task_ctx {
	struct bias_profile profile;
	struct bias_window window; /* the open window */
	u64 fast_ns;		   /* time on fast CPUs */
	u64 slow_ns;		   /* time on slow CPUs */
	u32 uncounted;		   /* runs since the last counted one */
	u32 brief;		   /* the last run was shorter than BRIEF_NS */
	u32 spun;		   /* intervals until it counts as settled */
	u32 reason;		   /* enum bias_reason */
	u32 in_transit;		   /* migrated by request, has not run since */
	u32 swapped;		   /* that migration was a planned swap */
	u64 moved_ns;		   /* when, on the monotonic clock */
	u64 lost_ns;		   /* total time from migration to next run */
	struct bias_work work;	   /* recent work by class, see bias/swap.h */
	u64 cgroup_id;		   /* last cgroup seen, see limit.bpf.h */
	u32 cgroup_epoch;	   /* cgroups_epoch of that check */
	u32 inside;		   /* it has a bias in that cgroup */
	u32 queue;		   /* 1 + index of its last DSQ */
	u64 partition;		   /* its last partition, see partition.bpf.h */
	u64 partition_lead_ns;	   /* lead of that partition then */
	u64 earned_ns;		   /* lead that may be forgiven, see enqueue.bpf.h */
	u64 slept_ns;		   /* when its sleep began, or 0 */
	u64 forgivable_ns;	   /* work that this sleep may forgive */
	u64 parked_ns;		   /* since when it is parked */
	u32 parked;		   /* it waits for its quota */
	u32 hint;		   /* enum bias_hint, see hint.bpf.h */
	u32 hint_speedup;	   /* that of the hint [permille], or 0 */
	u64 hint_table;		   /* address of its process's hints, or 0 */
	u32 hint_epoch;		   /* hints_epoch of that field */
	u32 ran_epoch;		   /* reports_epoch when it stopped last */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * Counters of the CPUs, BIAS_NR_COUNTERS each. The agent sizes and fills the
 * map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, BIAS_NR_COUNTERS);
	__type(key, u32);
	__type(value, u32);
} events SEC(".maps");

/*
 * CPUs by tier: for each LLC, for the machine at index nr_llcs, and behind it,
 * if there are several, for each NUMA node.
 */
struct domain {
	struct bpf_cpumask __kptr *mask[BIAS_NR_TIERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BIAS_MAX_LLCS + 1 + BIAS_MAX_NODES);
	__type(key, u32);
	__type(value, struct domain);
} domains SEC(".maps");

/* Scratch mask for intersections with a task's affinity. */
struct scratch_mask {
	struct bpf_cpumask __kptr *mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch_mask);
} scratches SEC(".maps");

/* Tasks of one affinity, see partition.bpf.h. */
struct partition {
	u64 key;
	u64 lead_ns; /* sum of all cuts */
};

/* Enough that the CPUs of a large machine rarely share one. */
#define NR_PARTITIONS 2048

struct partition partitions[NR_PARTITIONS];

/*
 * Runnable weight in a cgroup, see group.bpf.h, and its use of its quota, see
 * quota.bpf.h. The index is the cgroup's css id. Entries 0 and 1 are unused.
 */
#define MAX_GROUPS 16384

struct group_ctx {
	s64 active;  /* weights of its runnable tasks and active children */
	s64 counted; /* its own weight in the parent's active sum, or 0 */
	s64 weight;  /* what it counts there while it is active */
	u64 serial;  /* the kernel's number of the cgroup; ids are reused */
	u32 parent;  /* index of its parent, 0 for the root */

	u64 period_start_ns;	/* when the current period began */
	s64 used_ns;		/* run time minus what was granted */
	u64 throttled_until_ns; /* it must not run before */
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct group_ctx groups[MAX_GROUPS];

/* 1 once a task of a cgroup with a quota has run. */
u32 quotas_seen __attribute__((aligned(BIAS_CACHE_LINE)));
/* Tasks that wait for their quota, see throttle.bpf.h. */
s64 nr_parked __attribute__((aligned(BIAS_CACHE_LINE)));
/* When the timer for them fires, 0 if it is not armed. */
u64 unpark_at_ns;
/* 1 if it has fired, until a CPU looks for those that are due. */
u32 unpark_now;
/* The CPU that the timer kicked last. */
u32 unpark_cpu;

struct unpark_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct unpark_timer);
} unpark_timer SEC(".maps");

/* The timer for idle CPUs that still request a clock is armed. */
u32 clock_timer_armed __attribute__((aligned(BIAS_CACHE_LINE)));
/* Count of its periods, from 1 on. */
u32 clock_timer_count = 1;

struct clock_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock_timer);
} clock_timer SEC(".maps");

/*
 * Followed cgroups by id, with enum bias_follow as value, and events for the
 * agent, see optin.bpf.h. The maps exist only if they are used. The agent
 * writes the first one and drains the second.
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
} optin_events SEC(".maps");

/* Events lost because the ring buffer was full. */
u64 optin_lost;
/* Count of changes to optin_cgroups, from 1 on. The agent writes it. */
u32 cgroups_epoch;

/*
 * Addresses of the hints of marked processes by tgid, see hint.bpf.h. The agent
 * writes the map, and counts its changes from 1 on.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BIAS_HINT_TABLES);
	__type(key, u32);
	__type(value, u64);
} hint_tables SEC(".maps");

u32 hints_epoch __attribute__((aligned(BIAS_CACHE_LINE)));

/*
 * Count of the agent's requests for reports, and the first one since which a
 * task must have run to be in the present report, see report.bpf.h. The agent
 * writes both.
 */
u32 reports_epoch;
u32 reports_since;

UEI_DEFINE(uei);

#endif
