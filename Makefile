# Build, install and test gen_durable with PGXS: make && make install && make installcheck

EXTENSION = gen_durable gen_durable_pgtap
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/gen_durable.control)

ifdef VPATH
srcdir := $(VPATH)
else
srcdir := .
endif

MODULE_big = gen_durable
OBJS = \
	src/gen_durable.o \
	src/catalog.o \
	src/clock.o \
	src/events.o \
	src/fault.o \
	src/guc.o \
	src/json.o \
	src/names.o \
	src/scan.o \
	src/subxact.o \
	src/table.o \
	src/token.o \
	src/bgw/bgw.o \
	src/bgw/ddl.o \
	src/bgw/feeder.o \
	src/bgw/executor.o \
	src/bgw/launcher.o \
	src/bgw/maintainer.o \
	src/bgw/scheduler.o \
	src/bgw/staff.o \
	src/bgw/vacuum.o \
	src/bgw/work.o \
	src/engine/admit.o \
	src/engine/and_take.o \
	src/engine/await.o \
	src/engine/blocked.o \
	src/engine/cancel.o \
	src/engine/census.o \
	src/engine/children.o \
	src/engine/complete.o \
	src/engine/constructors.o \
	src/engine/dispatched.o \
	src/engine/drain.o \
	src/engine/due.o \
	src/engine/duerows.o \
	src/engine/effects.o \
	src/engine/gc.o \
	src/engine/handler.o \
	src/engine/heartbeat.o \
	src/engine/inbox.o \
	src/engine/insert.o \
	src/engine/instance.o \
	src/engine/job.o \
	src/engine/keylock.o \
	src/engine/leave.o \
	src/engine/limits.o \
	src/engine/machines.o \
	src/engine/outcome.o \
	src/engine/pick.o \
	src/engine/poll.o \
	src/engine/queues.o \
	src/engine/reap.o \
	src/engine/reclaim.o \
	src/engine/register.o \
	src/engine/release.o \
	src/engine/revive.o \
	src/engine/runners.o \
	src/engine/session.o \
	src/engine/signal.o \
	src/engine/spec.o \
	src/engine/stats.o \
	src/engine/step.o \
	src/engine/take.o \
	src/engine/tick.o \
	src/engine/timeouts.o \
	src/engine/tokens.o \
	src/engine/wait.o \
	src/engine/workers.o \
	src/limiter/configure.o \
	src/limiter/counters.o \
	src/limiter/functions.o \
	src/limiter/limiter.o \
	src/limiter/policy.o \
	src/limiter/table_admit.o \
	src/limiter/table_reconcile.o \
	src/run_store/claim.o \
	src/run_store/collect.o \
	src/run_store/commit.o \
	src/run_store/insert.o \
	src/run_store/lease.o \
	src/run_store/list.o \
	src/run_store/mutate.o \
	src/run_store/read.o \
	src/run_store/ring.o \
	src/run_store/run.o \
	src/run_store/scope.o \
	src/run_store/wait.o \
	src/shmem/cursors.o \
	src/shmem/databases.o \
	src/shmem/dispatch.o \
	src/shmem/limit_counts.o \
	src/shmem/executor_news.o \
	src/shmem/executors.o \
	src/shmem/shmem.o \
	src/shmem/stats.o \
	src/shmem/waiters.o \
	src/shmem/timers.o \
	src/shmem/turn.o \
	src/shmem/wake.o

# The extension's SQL, by topic, in the order in which it must run.
SQL_PARTS = \
	preamble types tables client work outcomes limits machines maintenance \
	administration views statistics run_store_tables run_store run_store_tenants run_store_comments \
	privileges comments

DATA = src/sql/gen_durable_pgtap--0.1.0.sql
DATA_built = gen_durable--$(EXTVERSION).sql
EXTRA_CLEAN = gen_durable--*.sql

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers

REGRESS = $(shell sed 's/\#.*//' $(srcdir)/sql/LIST)
REGRESS_OPTS = --inputdir=$(srcdir) --load-extension=plpgsql
ISOLATION = $(shell sed 's/\#.*//' $(srcdir)/test/isolation/LIST)
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

gen_durable--$(EXTVERSION).sql: $(foreach part,$(SQL_PARTS),$(srcdir)/src/sql/$(part).sql)
	cat $^ > $@

# Every object depends on every header: the tree is small and a stale object is worse than a rebuild.
$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h)

# A build outside the tree has no folders yet.
OBJ_DIRS = $(addprefix $(CURDIR)/,$(sort $(dir $(OBJS))))
$(OBJS): | $(OBJ_DIRS)
$(OBJ_DIRS):
	mkdir -p $@

# Checks of the sources, which scripts/check does not run; docs/development.md tells what they need.
.PHONY: indent tidy cppcheck
indent:
	$(srcdir)/scripts/indent

tidy:
	cd $(srcdir) && clang-tidy --quiet $(OBJS:.o=.c) -- -Isrc $(CPPFLAGS)

# Without the server's headers, which take minutes, but for the version that compat.h asks for.
cppcheck:
	cd $(srcdir) && cppcheck --enable=warning,portability,performance --std=c11 -q --error-exitcode=1 -Isrc -DPG_VERSION_NUM=150000 src
