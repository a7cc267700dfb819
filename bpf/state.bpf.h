/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * All state that outlives a callback. Only this file defines maps and globals:
 * a definition in two units survives linking as two variables, and the agent
 * would write one while BPF reads the other.
 *
 * Each field of a cpu_ctx has one writer: its own CPU, unless a comment names
 * another. Readers on other CPUs tolerate values that are one event old,
 * because the CPU that acts on a decision checks it again.
 */
#ifndef BIAS_STATE_BPF_H
#define BIAS_STATE_BPF_H

#include <scx/common.bpf.h>
#include <bias/abi.h>
#include <bias/clock.h>
#include <bias/vtime.h>

/* Constant once loaded. Counts are at most BIAS_MAX_CPUS, _LLCS and _NODES. */
const volatile u32 nr_cpus = 1;		 /* possible CPUs */
const volatile u32 nr_llcs = 1;		 /* last-level caches */
const volatile u32 nr_nodes = 1;	 /* 1 + the highest NUMA node */
const volatile bool smt_active = false;	 /* cores have several threads */
const volatile bool two_classes = false; /* else every CPU counts as fast */
const volatile bool counting = false;	 /* some CPU has counters */
const volatile bool partial = false;	 /* runs only opted-in tasks */
const volatile bool limited = false;	 /* bias only for opted-in tasks */
const volatile u32 agent_tgid = 0;
const volatile bool nohz_full = false; /* some CPU is in nohz_full */
const volatile bool moving = true;     /* CPUs request migrations */

/*
 * Knobs that the agent writes before attach and at any time later: a callback
 * may see one old and one new. Every path reads them, so they share no page
 * with data that is written. Gaps and lags are differences in vtime.
 */
#define KNOB SEC(".data.knobs")
volatile u64 slice_ns KNOB;		   /* slice while no task waits */
volatile u64 slice_min_ns KNOB;		   /* slice while many tasks wait */
volatile u64 rotate_gap_ns KNOB;	   /* gap at which tasks rotate */
volatile u64 sync_burst_ns KNOB;	   /* see keep_with_waker() */
volatile u64 window_instructions KNOB;	   /* size of a window */
volatile u64 steal_lag_ns KNOB;		   /* lag at which a CPU steals */
volatile u64 unfair_gap_ns KNOB;	   /* gap that overrules the speedup */
volatile u32 max_unfairness_permille KNOB; /* ratio of equal tasks' progress */
volatile u32 sample_every KNOB;		   /* slices per counted stable run */
volatile u32 gain_permille KNOB;	   /* difference worth a migration */
/* A fixed band [permille]. It adapts if fixed_high is 0. */
volatile u32 fixed_low KNOB;
volatile u32 fixed_high KNOB;

/* The agent writes all of it before attach, and single fields later. */
struct bias_cpu_info cpu_info[BIAS_MAX_CPUS];

/* An LLC's part, which is that of its node, of the CPUs below the best tier. */
struct slow_group {
	u32 first;		   /* where that part begins */
	u32 start;		   /* in it, the LLC's own first CPU */
	u32 worse[BIAS_NR_TIERS];  /* CPUs, the first ones, worse than tier n */
	u32 home[BIAS_NR_CLASSES]; /* 1 + LLC where biased tasks wait, or 0 */
};

struct slow_list {
	u32 cpus[BIAS_MAX_CPUS]; /* by node, worst tier first, by LLC */
	struct slow_group groups[BIAS_MAX_LLCS];
};

/* The table in two copies (table.bpf.h). class_costs are of typical CPUs. */
struct bias_speed speeds[BIAS_MAX_CPUS * BIAS_TABLE_COPIES] __attribute__((aligned(BIAS_CACHE_LINE)));
struct bias_cost class_costs[BIAS_TABLE_COPIES][BIAS_NR_CLASSES];
struct slow_list slow_lists[BIAS_TABLE_COPIES];
/* 1 if a second thread on a busy fast core adds more than a whole slow core. */
u32 fast_sibling_first[BIAS_TABLE_COPIES];
u32 tiers_used[BIAS_TABLE_COPIES]; /* bit n: a CPU has tier n */
u32 near_tiers[BIAS_TABLE_COPIES]; /* bit n: tier n is a few percent worse */
/* Count of tables so far. Its lowest bit selects the copy in force. */
u32 table_seq __attribute__((aligned(BIAS_CACHE_LINE)));

#define MAX_SCAN 64 /* CPUs that a search on a hot path visits at most */

enum run_flags {
	RUN_MOVABLE = 1 << 0,  /* it can run on other CPUs, too */
	RUN_ANYWHERE = 1 << 1, /* on every CPU; else on those in run_allowed */
	RUN_TICKED = 1 << 2,   /* the last tick saw it: worth a migration */
	RUN_BUSY = 1 << 3,     /* a SCHED_EXT task runs */
	RUN_UNTICKED = 1 << 4, /* without a tick, see nohz.bpf.h */
	RUN_ROAMS = 1 << 5,    /* it may leave its node, see leaves_node() */
};

/* A CPU's counters, and how long [ns] perf had enabled and run their group. */
struct readout {
	struct bias_counts counts;
	u64 enabled_ns;
	u64 running_ns;
};

/* By cache line: what others read, what they write, what only this CPU uses. */
struct cpu_ctx {
	/* The running task. This CPU writes it, other CPUs read it. */
	u64 run_vtime;	     /* vtime at the last charge */
	u64 began_vtime;     /* vtime when its slice began */
	u64 began_exec_ns;   /* sum_exec_runtime when it began to run */
	u64 run_allowed;     /* first 64 CPUs of its affinity */
	s32 run_pid;	     /* the last SCHED_EXT task that ran */
	u32 run_flags;	     /* enum run_flags; 0 if no SCHED_EXT task runs */
	u32 run_speedup;     /* predicted [permille]; 0: unknown, 1: it spins */
	u32 run_spun;	     /* it spun lately */
	u32 run_rate;	     /* charge rate [permille of the reference CPU] */
	u32 run_shared_rate; /* charge rate while a sibling is busy */
	u32 run_weight;	     /* effective weight at the last charge */
	u64 ticked_at;	     /* jiffies of the last tick; 0: idle, or moved */
	u64 contended_mask;  /* all ones if the CPU was contended then */

	/* Any CPU writes these. move_to is a move request, see move.bpf.h. */
	u32 move_to __attribute__((aligned(BIAS_CACHE_LINE)));
	u32 offered;	     /* 1 + CPU that woke this one to pull, or 0 */
	s32 move_pid;	     /* task of a planned swap, see swap.bpf.h */
	s32 move_partner;    /* the task that comes here in exchange */
	u32 kthread_waiting; /* a kthread waits locally; its waker sets this */
	u32 pinned_used;     /* the pinned DSQ was used */
	u32 onlined;	     /* times online; agent then reopens counters */
	u32 is_offline;	     /* or about to be: its idle mark means nothing */
	u64 arrival;	     /* task on its way here, see arrival.bpf.h, or 0 */
	u64 watched_exec_ns; /* began_exec_ns of the run that a search saw */
	u64 watched_ns;	     /* when one saw it first */

	/* Only this CPU writes the rest. Two ticks saw the resident task. */
	s32 resident_pid __attribute__((aligned(BIAS_CACHE_LINE)));
	u32 resident_speedup; /* predicted speedup of that task [permille] */
	u32 took_shared;      /* 1 + index of the DSQ that was served, or 0 */
	u32 yields;	      /* calls of sched_yield(), see bias_yield() */
	u32 rate_seq;	      /* table_seq that run_rate was computed from */
	u32 looked_llc;	      /* LLC last checked for lagging tasks */
	u32 untick_pid;	      /* task that starts without a tick, or 0 */
	u32 put_back;	      /* the task that ran went to a shared DSQ */

	u64 took_at;	   /* jiffies, about, of a start from a shared DSQ */
	u64 start_exec_ns; /* sum_exec_runtime at the last charge */
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
	u64 seen_cycles; /* sum over valid intervals, like seen_ns */
	u64 seen_ns;

	/* Load [1 / SCX_CPUPERF_ONE]. Times are those of exec_start's clock. */
	u64 load_at_ns;	   /* when the load was last updated */
	u64 paused_ns;	   /* pauses since then */
	u64 busy_since_ns; /* when the last pause ended */
	u64 stopped_ns;	   /* when the last SCHED_EXT task stopped */
	u32 load;	   /* average share of busy time */
	u32 waived;	   /* share of the maximum clock not requested */
	u32 idle_count;	   /* clock_timer_count when it began to idle, or 0 */

	s64 weight;	 /* what became runnable here minus what ceased */
	s64 owed_weight; /* the same of one cgroup, not yet added to it */
	u32 owed_group;	 /* index of that cgroup */

	u64 stats[BIAS_NR_STATS];
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct cpu_ctx cpu_ctxs[BIAS_MAX_CPUS];

/* What is known of an LLC's shared DSQs without a call into the kernel. */
struct llc_ctx {
	u32 used[BIAS_NR_CLASSES];	  /* the DSQ has held tasks */
	u32 waiting;			  /* tasks wait, approximately */
	u32 node;			  /* NUMA node, from the agent */
	u64 waiting_since_ns;		  /* since when tasks wait, or 0 */
	u64 looked_before;		  /* overdue_before last looked for */
	u64 taken_vtime[BIAS_NR_CLASSES]; /* of the last task taken */
} __attribute__((aligned(BIAS_CACHE_LINE)));

struct llc_ctx llc_ctxs[BIAS_MAX_LLCS];

/* Bit n: `waiting` of LLC n, if several. CPUs about to idle read one line. */
u64 waiting_llcs[BIAS_MAX_LLCS / 64] __attribute__((aligned(BIAS_CACHE_LINE)));

/* Global vtime, see account.bpf.h. */
u64 vtime_now __attribute__((aligned(BIAS_CACHE_LINE)));
/* Weight of all runnable tasks. */
u64 total_weight __attribute__((aligned(BIAS_CACHE_LINE))) = BIAS_WEIGHT_NICE_0;
u64 total_weight_at; /* jiffies when it was added up */
u32 nr_busy;	     /* CPUs that were busy then */
u32 nr_spare;	     /* online CPUs without a SCHED_EXT task then */
u32 clock_holds;     /* 1 while vtime_now holds, ahead of running tasks */
/* The CPU that adds up total_weight writes these, see overdue.bpf.h. */
u64 overdue_before; /* tasks runnable since before it are overdue [jiffies] */
u64 marked;	    /* the last mark [jiffies] */
u64 marked_ns;	    /* when it was set */

/* Average speedup of running tasks, and the band around it without a bias. */
u32 average_speedup __attribute__((aligned(BIAS_CACHE_LINE)));
u32 band_low;
u32 band_high = ~0u;
u32 victim_cpu; /* 1 + nominated slow CPU, or 0 */
u32 late_cpu;	/* 1 + CPU whose announced task is late, or 0 */

struct task_ctx {
	struct bias_profile profile;
	struct bias_window window; /* the open window */
	u64 fast_ns;		   /* time on fast CPUs */
	u64 slow_ns;		   /* time on slow CPUs */
	u64 counted_exec_ns;	   /* sum_exec_runtime when last counted */
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
	u64 earned_ns;		   /* forgivable lead, see enqueue.bpf.h */
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

/* BIAS_NR_COUNTERS counters for each CPU. The agent sizes and fills the map. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, BIAS_NR_COUNTERS);
	__type(key, u32);
	__type(value, u32);
} events SEC(".maps");

/* CPUs by tier of each LLC, the machine (nr_llcs) and each of several nodes. */
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

#define NR_PARTITIONS 2048 /* CPUs of a large machine rarely share one */

struct partition partitions[NR_PARTITIONS];

/* A cgroup's weight (group.bpf.h) and quota (quota.bpf.h), by css id. */
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
u64 unpark_at_ns; /* when their timer fires, or 0 */
u32 unpark_cpu;	  /* the last busy CPU that was kicked to look */
u32 look_now;	  /* 1: the next CPU that dispatches looks for tasks to move */
u32 leaving;	  /* 1 + the last CPU that was about to go offline */

struct unpark_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct unpark_timer);
} unpark_timer SEC(".maps");

/* 1 while the timer for idle CPUs that still request a clock is armed. */
u32 clock_timer_armed __attribute__((aligned(BIAS_CACHE_LINE)));
u32 clock_timer_count = 1; /* counts its periods, from 1 on */

struct clock_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock_timer);
} clock_timer SEC(".maps");

/* Followed cgroups by id (enum bias_follow), and events for the agent. */
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

u64 optin_lost;	   /* events that the full ring buffer lost */
u32 cgroups_epoch; /* counts the agent's changes, from 1 on */

/* Hint tables by tgid. The agent writes the map, and counts its changes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BIAS_HINT_TABLES);
	__type(key, u32);
	__type(value, u64);
} hint_tables SEC(".maps");

u32 hints_epoch __attribute__((aligned(BIAS_CACHE_LINE)));

u32 reports_epoch; /* counts the agent's requests, see report.bpf.h */
u32 reports_since; /* a task must have run since that request */

UEI_DEFINE(uei);

#endif
