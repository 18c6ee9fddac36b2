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
	src/probe.o \
	src/scan.o \
	src/subxact.o \
	src/table.o \
	src/token.o \
	src/bgw/announcer.o \
	src/bgw/bgw.o \
	src/bgw/ddl.o \
	src/bgw/feeder.o \
	src/bgw/executor.o \
	src/bgw/launcher.o \
	src/bgw/maintainer.o \
	src/bgw/orphans.o \
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
	src/engine/channel.o \
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
	src/engine/maintenance.o \
	src/engine/outcome.o \
	src/engine/pages.o \
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
	src/limiter/held.o \
	src/limiter/limiter.o \
	src/limiter/policy.o \
	src/limiter/redis/url.o \
	src/limiter/remote.o \
	src/limiter/table_admit.o \
	src/limiter/table_grant.o \
	src/limiter/table_reconcile.o \
	src/run_store/claim.o \
	src/run_store/collect.o \
	src/run_store/commit.o \
	src/run_store/expired.o \
	src/run_store/insert.o \
	src/run_store/lease.o \
	src/run_store/list.o \
	src/run_store/listing.o \
	src/run_store/mutate.o \
	src/run_store/read.o \
	src/run_store/ring.o \
	src/run_store/run.o \
	src/run_store/scope.o \
	src/run_store/stats.o \
	src/run_store/wait.o \
	src/shmem/cursors.o \
	src/shmem/databases.o \
	src/shmem/dispatch.o \
	src/shmem/limit_counts.o \
	src/shmem/executor_news.o \
	src/shmem/executor_self.o \
	src/shmem/executors.o \
	src/shmem/news.o \
	src/shmem/returns.o \
	src/shmem/shmem.o \
	src/shmem/stats.o \
	src/shmem/waiters.o \
	src/shmem/timers.o \
	src/shmem/turn.o \
	src/shmem/wake.o

# The extension's SQL, by topic, in the order in which it must run.
SQL_PARTS = \
	preamble types tables client work outcomes limits machines maintenance \
	administration views statistics run_store_tables run_store run_store_tenants run_store_statistics run_store_comments \
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

# The module for limits in Redis, where hiredis is installed; with_redis=no leaves it out.
HASH := \#
has_header = $(shell echo '$(HASH)include <$(1)>' | $(CC) $(CPPFLAGS) -E - >/dev/null 2>&1 && echo yes)
with_redis := $(call has_header,hiredis/hiredis.h)
REDIS_LIBS = -lhiredis $(if $(call has_header,hiredis/hiredis_ssl.h),-lhiredis_ssl)
REDIS_OBJS = src/limiter/redis/connection.o src/limiter/redis/module.o src/limiter/redis/scripts.o
REDIS_MODULE = gen_durable_redis$(DLSUFFIX)
LUA_TEXT = src/limiter/redis/lua_text.h
LUA_SCRIPTS = common admit look renew credit

# Each script as a string for C.
$(LUA_TEXT): $(LUA_SCRIPTS:%=$(srcdir)/src/limiter/redis/%.lua) | $(CURDIR)/src/limiter/redis/
	for script in $(LUA_SCRIPTS); do \
	  echo "#define lua_$$script \\"; \
	  sed 's/\\/&&/g; s/"/\\"/g; s/^/"/; s/$$/\\n" \\/' $(srcdir)/src/limiter/redis/$$script.lua; echo; \
	done >$@

src/limiter/redis/scripts.o: $(LUA_TEXT)
src/limiter/redis/scripts.o: override CPPFLAGS += -Isrc/limiter/redis

$(REDIS_MODULE): $(REDIS_OBJS)
	$(CC) $(CFLAGS) -shared -o $@ $(REDIS_OBJS) $(LDFLAGS) $(LDFLAGS_SL) $(REDIS_LIBS)

.PHONY: install-redis uninstall-redis
install-redis: $(REDIS_MODULE)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $(REDIS_MODULE) '$(DESTDIR)$(pkglibdir)/$(REDIS_MODULE)'
uninstall-redis:
	rm -f '$(DESTDIR)$(pkglibdir)/$(REDIS_MODULE)'

ifeq ($(with_redis),yes)
all: $(REDIS_MODULE)
install: install-redis
endif
uninstall: uninstall-redis
EXTRA_CLEAN += $(REDIS_MODULE) $(REDIS_OBJS) $(LUA_TEXT)

# Every object depends on every header: the tree is small and a stale object is worse than a rebuild.
$(OBJS) $(REDIS_OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h $(srcdir)/src/*/*/*.h)

# A build outside the tree has no folders yet.
OBJ_DIRS = $(addprefix $(CURDIR)/,$(sort $(dir $(OBJS))))
$(OBJS) $(REDIS_OBJS): | $(OBJ_DIRS)
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
