"""Tuning: every number that was chosen for speed, patience or size, with the reason for it. Seconds, unless it says so.

What people may choose is in `settings`; these are ours. A number is here and nowhere else, so that whoever changes one
sees its neighbours. Most were measured with `make bench`; none of them carries a promise: with others everything is
kept all the same, only later, or with more effort.
"""

from __future__ import annotations

# how many at a time

#: Threads and coroutines to begin with: enough to hide a slow disk or a network, few enough to cost nothing.
FIRST_THREADS, FIRST_COROUTINES = 4, 32
#: Most that the kernel chooses by itself. Beyond, threads cost memory and switches; who needs more says so.
CHOSEN_THREADS, CHOSEN_COROUTINES = 64, 256
#: A window is judged after this long, and when it saw at least as many tasks as there are workers.
ADAPT_WINDOW = 0.1
#: Above this share of one core Python's lock is the limit; below it the workers mostly wait.
BUSY = 0.8
#: A larger number than this was reached by steps that gained; that it keeps a core busy does not speak against it.
PROVEN = 8
#: Below this share the number can be multiplied by four without filling the core.
IDLE = 0.2
#: Up to this share it was one core after all, whose lock they passed around: fewer can only be faster.
ONE_CORE = 1.4
#: A step must gain this much to be kept: less is noise.
GAIN = 1.05
#: How long a step that failed is not tried again.
SETTLED_FOR = 5.0
#: Memory is scarce when this process uses so much of what it may have, or so little of the machine's is left.
OWN_SHARE, FREE_SHARE = 0.8, 0.05

# limits and throttles

#: Kinds and lanes beyond which those that are as good as new are forgotten: of lanes there may be millions.
LIMITS_KEPT = 1_024
#: Seconds by which a start may be late without being lost, and the least number of such slices in the time of a rate.
SLICE, SLICES = 0.01, 100
#: A window is judged after this long, and when it saw at least as many tasks as may run at a time.
THROTTLE_WINDOW = 0.1
#: Before a throttle begins it must have seen so many.
FEWEST = 10
#: A window in which more than this share of the tasks deferred themselves counts as throttled.
THROTTLED = 0.5
#: A window older than this says nothing about now.
STALE = 10.0

#: Of kinds under limits of the store so many seconds of work are claimed in advance: each claimed task takes a place.
GRANT_SECONDS = 0.1
#: A place that was taken and is not used for so long is given back to others.
UNUSED = 1.0
#: The most claims that go back in one transaction: what follows from them waits for it.
BACK_AT_ONCE = 1_000

# values

#: How long a guest stays after it changed a value: a program that goes on to change some pays for one session.
GUEST_STAYS = 5.0
#: How long a guest waits for a store that is away: about as long as a start does.
GUEST_PATIENCE = 8.0
#: The pause of who lost a value outside of tasks, before it tries again: by chance up to so long, and so much longer
#: each time.
TRY_PAUSE, LONGEST_TRY_PAUSE = 0.001, 0.05

# locks

#: How often who waits for a lock looks whether its holder is still there: the first in line, and at most. A look is a
#: read or two; those behind the first look less often.
LOCK_LOOK, LONGEST_LOCK_LOOK = 0.5, 5.0
#: The list of processes is read for locks no more often than this, and takes a twentieth of the time at most.
SHORTEST_SESSION_LOOK = 0.05

# topics

#: How long a pump rests that found nothing, before it hears of the next change: others may commit without pause.
PUMP_PAUSE = 0.005
#: How long a pump that came second leaves publications to the one that came first.
PUMP_PATIENCE = 0.25

# jobs

#: How long one waits at most who writes next, so that those whose jobs were just written come along with more: half as
#: long as a write takes.
GATHER = 0.002

# how much

#: Seconds of work to hold in memory: longer than a claim takes, short enough to leave others their share.
HORIZON = 0.5
#: Seconds of work in one chunk, and most tasks in it: handing one over costs some 20 microseconds.
CHUNK_SECONDS, CHUNK_AT_MOST = 0.004, 1_024
#: A chunk that took so long is larger than it was meant to be: what is left of it goes to whoever is free.
CHUNK_TOO_LONG = 0.05
#: A claim costs about this much; one that brings less work than that is not worth making.
CLAIM_SECONDS = 0.002
#: The most to ask for when several processes work and nobody said what is left.
UNSEEN = 2_048
#: The window holds at most so many claims, so that the next one is there before the last is worked off.
WINDOWS = 2
#: After so many tasks, what was measured before them counts half.
HALF_FORGOTTEN = 256
#: After so many seconds of work it does not count at all: where tasks become longer, the first of those tells.
FORGOTTEN_AFTER = 0.05
#: A single task shorter than this does not make anybody put back what is held: it may have waited for the disk, for
#: another thread or for the garbage collector. Two do, unless many times as many tasks as `NEAR` came between them.
TELLS_ALONE, NEAR = 0.25, 16
#: Who holds more than so many windows, because tasks take longer than they did, puts some back.
TOO_MANY = 2
#: Tasks that take less than this are quick: handing them to another thread costs more than they take.
QUICK = 1e-4
#: No task takes less: what a clock could not tell from nothing would be taken for infinitely many a second.
SHORTEST_TASK = 1e-7
#: A task with fewer children than this commits them with its end; one with more streams them in pieces of it.
PIECE = 8_192
#: Ids reserved at a time, the first time few: most programs make few tasks.
FIRST_BLOCK, BLOCK = 4_096, 262_144
#: Deadlines of chunks that are over, beyond which they are cleared away.
DEADLINES_KEPT = 64
#: Log lines that may wait for the store (the oldest go first when it is away for long), and lines written at a time.
MOST_LINES, LINES_AT_ONCE = 20_000, 1_000
#: How often fewer log lines than that are written: people follow them, and each time is a write.
NOTES_EVERY = 1.0

# how long to wait

#: The longest rest of a process that has nothing at all to do. Due times that it knows of end a rest earlier.
LONGEST_REST = 1.0
#: How long to wait before asking again when a claim found nothing: first, and at most while something still runs. Also
#: the shortest and the longest time between claims for rows that were said to be due and could not be had.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05
#: How long nothing is claimed after a claim that brought several new runs and left nothing. Runs are being started one
#: after the other then: what a claim and a commit cost is shared by those that come in meanwhile.
HOLD_OFF = 0.01
#: How many runs are known to have been there before; after that all are forgotten.
RUNS_SEEN = 100_000
#: How often a process looks, at the least, for runs that nobody else may be left to move on.
LOOK_EVERY = 2.0
#: After a look that took so long, the next one waits so many times as long: looking takes a twentieth of an idle life.
LOOK_PAUSE = 20
#: The same while nothing changes, up to so many seconds: then it looks only for what others left behind, and there may
#: be very many runs that wait.
IDLE_LOOK_PAUSE, LONGEST_LOOK_PAUSE = 1_000, 60.0
#: The most runs that are asked in one verb: their judging is one transaction, for which others wait.
MOST_ASKED = 256
#: The pauses after which a verb that was not answered is sent again: they double from the first to the longest.
FIRST_RESEND, LONGEST_RESEND = 0.05, 2.0
#: How long a task waits that could not read from its store.
STORE_PAUSE = 1.0
#: An attempt that lost a value and took no longer than this waits for others that lost, each of them for so long at
#: most. It is as long as outcomes wait for their commit, so several would be in the next one and lose to each other.
QUICK_LOSS = 0.1
#: A reaper looks after so many beats: others look too, and a look is a write.
REAP_EVERY = 2
#: Seconds before the end of the grace period, half of it at most, at which a stopping kernel gives up a store that does
#: not answer: it has to say so and be gone in time.
LAST_WORDS = 2.0
#: Seconds that a kernel waits for its store when everything is saved, and only its session is left to end.
LAST_CHANCE = 1.0
#: The longest wait of a thread that may be the one which hears signals: it may hear one only when the wait is over.
DEAF = 0.2
#: Who waits for a run rests so many times as long as its read took, up to this long: a busy store is worth a read at
#: every moment, and where many read at once each takes long, so that all of them together leave the core to others.
READ_PAUSE, LONGEST_READ_PAUSE = 4, 0.05
#: The longest rest of a coroutine that follows results: it keeps one of the few threads that its event loop has.
ASYNC_REST = 0.05

# patience with tasks

#: How long suspects may wait before this process stops taking other work for their sake.
SUSPECT_WAIT = 1.0
#: For how many seconds suspects are watched after they returned.
WATCHED = 0.02
#: How long the loop's thread may be away before somebody stands in for it, and how often that is looked at.
CAUGHT_AFTER = 0.05
#: After so many looks at a loop that runs no tasks the stand-in goes to sleep.
LOOKS = 20
#: How long a coroutine that was cancelled because its time is up may clean up, and how often it is looked at.
MERCY, MERCY_LOOK = 0.5, 0.1
#: How long an event loop may take to turn once before somebody blocks it, if anybody's time is up.
BLOCKED_AFTER = 0.4
#: How long coroutines that nobody waits for may take to end when their loop does.
LAST_WAIT = 0.1
#: How long threads may take to end when the kernel does: one that hangs in a task never will.
LAST_THREADS = 0.5
#: In seconds: where times of attempts are told apart. Those within the first are quick, and not timed one by one.
BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0)
