/*
 * connection.c
 *		This process's connection to the Redis server.
 *
 * The socket is never blocking: it is waited on together with the process's
 * latch, so that interrupts are answered, and no longer than the timeout for
 * all of one exchange, connecting included.  (The name of a host is looked up
 * by the system's resolver, which takes its own time.)
 *
 * An exchange that did not come to its end leaves the connection with an
 * answer on its way, so it is closed.  After a failure no process of the
 * server tries again until some time has passed, which doubles.
 *
 * Takes no locks; the time of the next try is an atomic in shared memory.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "limiter/redis/connection.h"

#if __has_include(<hiredis/hiredis_ssl.h>)
#include <hiredis/hiredis_ssl.h>
#define HAVE_REDIS_TLS
#endif

/* The first pause after a failure, and the longest, in milliseconds. */
#define BACKOFF_MS 100
#define BACKOFF_MAX_DOUBLINGS 6

/* The longest wait for the other side of a handshake that may not come. */
#define TURN_MS 5

/* An answer's text that goes to the log at most. */
#define LOGGED_BYTES 200

/* Room for the number in front of a command's words. */
#define PREFIX_WORDS 6

static const GdRemoteHost *host;

static redisContext *context = NULL;
static bool exchanging = false; /* an answer is on its way */
static bool secure = false;		/* by TLS */
static bool answered = false;	/* there was a first answer */
static bool woken = false;		/* somebody set the latch meanwhile */
static char *connected_url = NULL;
static char run_id[64];
static char script_ids[GD_NSCRIPTS][64];
static char wrong[LOGGED_BYTES + 1];	/* why the last exchange failed */

void
gd_redis_host(const GdRemoteHost *given)
{
	host = given;
}

static void
connection_close(void)
{
	if (context)
		redisFree(context);
	context = NULL;
	exchanging = false;
	secure = false;
	answered = false;
}

static bool
failed(const char *reason)
{
	strlcpy(wrong, reason, sizeof(wrong));
	return false;
}

/*
 * broke_off: the socket failed.  In the handshake of TLS, which is done in the
 * first exchange, hiredis knows no more than the last error of the system.
 */
static bool
broke_off(void)
{
	if (secure && !answered)
		return failed("the TLS handshake failed: the server's certificate was not accepted, or it does not speak TLS");
	return failed(context->errstr);
}

/*
 * connection_failed: nobody tries again for a while.
 */
static void
connection_failed(void)
{
	uint32		failures = pg_atomic_fetch_add_u32(host->failures(), 1);
	int64		pause = BACKOFF_MS << Min(failures, BACKOFF_MAX_DOUBLINGS);

	connection_close();
	pg_atomic_write_u64(host->not_before(), GetCurrentTimestamp() + pause * 1000);
	if (failures == 0)
		ereport(LOG,
				(errmsg("limits in Redis admit nothing: %s", wrong),
				 errhint("What they hold back waits until gen_durable.redis_url can be reached.")));
}

static void
connection_succeeded(void)
{
	if (pg_atomic_read_u32(host->failures()) > 0 &&
		pg_atomic_exchange_u32(host->failures(), 0) > 0)
		ereport(LOG, (errmsg("Redis answers again")));
}

/*
 * socket_wait: wait until the socket is ready; false when the time is over.
 */
static bool
socket_wait(int events, TimestampTz deadline)
{
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		int			ready;

		CHECK_FOR_INTERRUPTS();
		if (left <= 0)
			return failed("it did not answer in time");
		ready = WaitLatchOrSocket(MyLatch,
								  WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | events,
								  context->fd, left, PG_WAIT_EXTENSION);
		if (ready & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			woken = true;
		}
		if (ready & events)
			return true;
	}
}

static bool
connection_send(TimestampTz deadline)
{
	int			done = 0;

	for (;;)
	{
		size_t		left = secure ? strlen(context->obuf) : 0;

		if (redisBufferWrite(context, &done) != REDIS_OK)
			return broke_off();
		if (done)
			return true;

		/*
		 * By TLS it may be the server's turn in the handshake, which hiredis
		 * does not tell; the socket would be ready for writing all the while.
		 */
		if (secure && strlen(context->obuf) == left)
		{
			TimestampTz until = GetCurrentTimestamp() + TURN_MS * INT64CONST(1000);

			if (!socket_wait(WL_SOCKET_READABLE, Min(until, deadline)) && until >= deadline)
				return false;
		}
		else if (!socket_wait(WL_SOCKET_WRITEABLE, deadline))
			return false;
	}
}

static redisReply *
connection_receive(TimestampTz deadline)
{
	void	   *reply = NULL;

	for (;;)
	{
		if (redisGetReplyFromReader(context, &reply) != REDIS_OK)
		{
			(void) failed(context->errstr);
			return NULL;
		}
		if (reply)
			return reply;
		if (!socket_wait(WL_SOCKET_READABLE, deadline))
			return NULL;
		if (redisBufferRead(context) != REDIS_OK)
		{
			(void) broke_off();
			return NULL;
		}
	}
}

/*
 * exchange: one command and its answer; NULL if there is none, or it is an
 * error.
 */
static redisReply *
exchange(int nwords, const char **words, const size_t *lens, TimestampTz deadline)
{
	redisReply *reply;

	exchanging = true;
	if (redisAppendCommandArgv(context, nwords, words, lens) != REDIS_OK)
	{
		(void) failed("out of memory");
		return NULL;
	}
	if (!connection_send(deadline))
		return NULL;
	reply = connection_receive(deadline);
	if (reply == NULL)
		return NULL;
	exchanging = false;
	answered = true;
	if (reply->type == REDIS_REPLY_ERROR)
	{
		(void) failed(reply->str);
		freeReplyObject(reply);
		return NULL;
	}
	return reply;
}

static redisReply *
command(TimestampTz deadline, const char *first, const char *second, const char *third)
{
	const char *words[] = {first, second, third};
	size_t		lens[lengthof(words)];
	int			n = 0;

	while (n < lengthof(words) && words[n])
	{
		lens[n] = strlen(words[n]);
		n++;
	}
	return exchange(n, words, lens, deadline);
}

static bool
command_ok(TimestampTz deadline, const char *first, const char *second, const char *third)
{
	redisReply *reply = command(deadline, first, second, third);

	gd_redis_done(reply);
	return reply != NULL;
}

/*
 * text_take: a text of an answer into a buffer, and the answer away.
 */
static bool
text_take(redisReply *reply, char *to, size_t size)
{
	bool		good = reply && reply->type == REDIS_REPLY_STRING && reply->len < size;

	if (good)
		memcpy(to, reply->str, reply->len + 1);
	else if (reply)
		(void) failed("it gave an answer that is not understood");
	gd_redis_done(reply);
	return good;
}

/*
 * run_id_read: which run of the server this is.
 */
static bool
run_id_read(TimestampTz deadline)
{
	redisReply *reply = command(deadline, "INFO", "server", NULL);
	const char *line = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "run_id:") : NULL;
	size_t		len = line ? strcspn(line + 7, "\r\n") : 0;
	bool		good = len > 0 && len < sizeof(run_id);

	if (good)
		strlcpy(run_id, line + 7, len + 1);
	else if (reply)
		(void) failed("it does not say its run_id");
	gd_redis_done(reply);
	return good;
}

#ifdef HAVE_REDIS_TLS
static bool
tls_begin(const GdRedisTarget *target)
{
	redisSSLContext *tls;
	bool		good;

	redisInitOpenSSL();
	tls = target->ca[0] ?
		redisCreateSSLContext(target->ca, NULL, NULL, NULL, target->host, NULL) :
		redisCreateSSLContext(NULL, "/etc/ssl/certs", NULL, NULL, target->host, NULL);
	good = tls && redisInitiateSSLWithContext(context, tls) == REDIS_OK;
	if (tls)
		redisFreeSSLContext(tls);	/* the connection keeps what it needs */
	secure = good;
	return good || failed(context->err ? context->errstr : "TLS cannot be set up");
}
#else
static bool
tls_begin(const GdRedisTarget *target)
{
	return failed("this build has no TLS for Redis");
}
#endif

static bool
connection_greet(const GdRedisTarget *target, TimestampTz deadline)
{
	int			error = 0;
	socklen_t	len = sizeof(error);
	char		number[16];

	if (!socket_wait(WL_SOCKET_WRITEABLE, deadline))
		return false;
	if (getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0)
		return failed(strerror(error));
	/* A connection in progress is one that hiredis does not know to be done. */
	context->flags |= REDIS_CONNECTED;
	if (target->tls && !tls_begin(target))
		return false;
	if (target->password[0] &&
		!(target->user[0] ? command_ok(deadline, "AUTH", target->user, target->password) :
		  command_ok(deadline, "AUTH", target->password, NULL)))
		return false;
	snprintf(number, sizeof(number), "%d", target->database);
	if (target->database > 0 && !command_ok(deadline, "SELECT", number, NULL))
		return false;
	if (!run_id_read(deadline))
		return false;
	for (int s = 0; s < GD_NSCRIPTS; s++)
		if (!text_take(command(deadline, "SCRIPT", "LOAD", gd_redis_scripts[s]),
					   script_ids[s], sizeof(script_ids[s])))
			return false;
	return true;
}

/*
 * connection_open: connect, unless that is done.
 */
static bool
connection_open(TimestampTz deadline)
{
	const char *url = *host->url ? *host->url : "";
	GdRedisTarget target;
	const char *fault;
	bool		good;

	if (exchanging || (context && strcmp(connected_url, url) != 0))
		connection_close();
	if (context)
		return true;
	if (url[0] == '\0')
		return failed("gen_durable.redis_url is not set");
	fault = host->read_url(url, &target);
	if (fault)
		return failed(fault);

	if (connected_url)
		free(connected_url);
	connected_url = strdup(url);
	context = target.path[0] ? redisConnectUnixNonBlock(target.path) :
		redisConnectNonBlock(target.host, target.port);
	if (connected_url == NULL || context == NULL)
		return failed("out of memory");
	exchanging = true;			/* until it has been greeted */
	good = context->err ? failed(context->errstr) : connection_greet(&target, deadline);
	exchanging = !good;
	explicit_bzero(&target, sizeof(target));
	return good;
}

/*
 * gd_redis_begin: the words of a command that runs a script, with so many keys
 * beside the era, and so many arguments beside those that all scripts have.
 */
void
gd_redis_begin(GdCall *call, GdScript script, int nkeys, int nargs)
{
	call->script = script;
	call->nkeys = nkeys + 1;
	call->size = PREFIX_WORDS + nkeys + nargs;
	call->words = palloc0(sizeof(char *) * call->size);
	call->lens = palloc0(sizeof(size_t) * call->size);
	call->n = 2;				/* EVALSHA and its script: when it is known */
	gd_redis_text(call, psprintf("%d", call->nkeys));
	gd_redis_text(call, "gen_durable:era");
}

static void
call_word(GdCall *call, const char *word, int len)
{
	Assert(call->n < call->size);
	call->words[call->n] = word;
	call->lens[call->n++] = len;
}

void
gd_redis_text(GdCall *call, const char *text)
{
	call_word(call, text, strlen(text));
}

/*
 * gd_redis_arguments: the keys are there; now the arguments of all scripts.
 */
void
gd_redis_arguments(GdCall *call)
{
	Assert(call->n == call->nkeys + 3);
	gd_redis_text(call, run_id);	/* its length: when it is known */
	gd_redis_text(call, psprintf(INT64_FORMAT, *host->lease * INT64CONST(1000)));
}

/*
 * gd_redis_call: run a script; NULL if there is no answer, which the log has
 * been told.
 */
redisReply *
gd_redis_call(const GdCall *call)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz deadline = now + *host->timeout * INT64CONST(1000);
	redisReply *reply = NULL;

	if (now < (TimestampTz) pg_atomic_read_u64(host->not_before()))
		return NULL;
	for (int try = 0; try < 2 && reply == NULL; try++)
	{
		bool		fresh = context == NULL || exchanging;

		if (connection_open(deadline))
		{
			call->words[0] = "EVALSHA";
			call->lens[0] = strlen("EVALSHA");
			call->words[1] = script_ids[call->script];
			call->lens[1] = strlen(script_ids[call->script]);
			call->lens[call->nkeys + 3] = strlen(run_id);
			reply = exchange(call->n, call->words, call->lens, deadline);
		}

		/*
		 * A connection from before may be to a server that is no more, or has
		 * forgotten the scripts.
		 */
		if (reply == NULL)
			connection_close();
		if (fresh)
			break;
	}
	if (woken)
	{
		woken = false;
		SetLatch(MyLatch);
	}
	if (reply)
		connection_succeeded();
	else
		connection_failed();
	return reply;
}

void
gd_redis_done(redisReply *reply)
{
	if (reply)
		freeReplyObject(reply);
}

/*
 * gd_redis_nonsense: an answer that no script of ours gives.
 */
void
gd_redis_nonsense(redisReply *reply, GdScript script)
{
	static const char *const names[] = {"admit", "look", "renew", "credit"};

	gd_redis_done(reply);
	snprintf(wrong, sizeof(wrong), "its answer to %s is not understood", names[script]);
	connection_failed();
}
