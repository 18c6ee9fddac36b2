/*
 * url.c
 *		Reading gen_durable.redis_url:
 *
 *		redis://[[user]:password@]host[:port][/database]
 *		rediss://...[?ca=/path]			likewise, by TLS; ca is the file with the
 *										certificates that sign the server's
 *		unix://[[user]:password@]/path[?db=database]
 *
 * What is reserved in a part is written as %XX.
 *
 * Takes no locks.
 */
#include "postgres.h"

#include <ctype.h>

#include "limiter/redis/url.h"

#define REDIS_PORT 6379
#define REDIS_DATABASE_MAX 1000000

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = pg_ascii_tolower((unsigned char) c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * part_copy: copy a part of the text, decoded; false if it is too long or
 * wrongly encoded.
 */
static bool
part_copy(char *part, const char *from, const char *end)
{
	int			n = 0;

	for (; from < end; from++)
	{
		char		c = *from;

		if (c == '%')
		{
			int			high = end - from > 2 ? hex_digit(from[1]) : -1;
			int			low = high >= 0 ? hex_digit(from[2]) : -1;

			if (low < 0 || (c = (char) (high * 16 + low)) == '\0')
				return false;
			from += 2;
		}
		if (n == GD_REDIS_PART_MAX - 1)
			return false;
		part[n++] = c;
	}
	part[n] = '\0';
	return true;
}

static bool
number_read(const char *from, const char *end, int max, int *value)
{
	*value = 0;
	if (from == end)
		return false;
	for (; from < end; from++)
	{
		if (!isdigit((unsigned char) *from))
			return false;
		*value = *value * 10 + (*from - '0');
		if (*value > max)
			return false;
	}
	return true;
}

/*
 * authority_read: [user]:password before an @.
 */
static bool
authority_read(const char *from, const char *end, GdRedisTarget *target)
{
	const char *colon = memchr(from, ':', end - from);

	return colon != NULL && part_copy(target->user, from, colon) &&
		part_copy(target->password, colon + 1, end);
}

static const char *
host_read(const char *from, const char *end, GdRedisTarget *target)
{
	const char *query = memchr(from, '?', end - from);
	const char *slash;
	const char *stop;
	const char *colon = NULL;
	const char *host_end;

	if (query && (!target->tls || strncmp(query, "?ca=/", 5) != 0 ||
				  !part_copy(target->ca, query + 4, end)))
		return "What follows may only be ?ca= and an absolute path of at most 255 bytes, for rediss://.";
	end = query ? query : end;
	slash = memchr(from, '/', end - from);
	stop = slash ? slash : end;
	host_end = stop;
	if (from < stop && *from == '[')
	{
		const char *close = memchr(from, ']', stop - from);

		if (close == NULL)
			return "The address lacks its \"]\".";
		from++;
		host_end = close;
		if (close + 1 < stop)
			colon = close + 1;
	}
	else if ((colon = memchr(from, ':', stop - from)) != NULL)
		host_end = colon;
	if (colon && (*colon != ':' || !number_read(colon + 1, stop, 65535, &target->port) ||
				  target->port == 0))
		return "The port must be between 1 and 65535.";
	if (from == host_end || !part_copy(target->host, from, host_end))
		return "The host must be 1 to 255 bytes.";
	if (slash && slash + 1 < end &&
		!number_read(slash + 1, end, REDIS_DATABASE_MAX, &target->database))
		return "The database must be a number.";
	return NULL;
}

static const char *
path_read(const char *from, const char *end, GdRedisTarget *target)
{
	const char *query = memchr(from, '?', end - from);
	const char *stop = query ? query : end;

	if (from == stop || *from != '/' || !part_copy(target->path, from, stop))
		return "The socket must be an absolute path of at most 255 bytes.";
	if (query && (strncmp(query, "?db=", 4) != 0 ||
				  !number_read(query + 4, end, REDIS_DATABASE_MAX, &target->database)))
		return "What follows the path must be ?db= and a number.";
	return NULL;
}

/*
 * gd_redis_url_read: see url.h.
 */
const char *
gd_redis_url_read(const char *url, GdRedisTarget *target)
{
	const char *end = url + strlen(url);
	const char *rest = strstr(url, "://");
	const char *at = NULL;
	bool		local;

	memset(target, 0, sizeof(GdRedisTarget));
	target->port = REDIS_PORT;
	if (rest == NULL)
		return "It must begin with redis://, rediss:// or unix://.";
	target->tls = rest - url == 6 && strncmp(url, "rediss", 6) == 0;
	local = rest - url == 4 && strncmp(url, "unix", 4) == 0;
	if (!target->tls && !local && !(rest - url == 5 && strncmp(url, "redis", 5) == 0))
		return "It must begin with redis://, rediss:// or unix://.";
	rest += 3;
	for (const char *c = rest; c < end && *c != '/'; c++)
		if (*c == '@')
			at = c;
	if (at)
	{
		if (!authority_read(rest, at, target))
			return "Before the @ must stand [user]:password, each of at most 255 bytes.";
		rest = at + 1;
	}
	return local ? path_read(rest, end, target) : host_read(rest, end, target);
}
