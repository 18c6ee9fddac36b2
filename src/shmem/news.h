/*
 * news.h
 *		Queues that listeners are to hear of (D-23).
 */
#ifndef GEN_DURABLE_NEWS_H
#define GEN_DURABLE_NEWS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "names.h"
#include "shmem/wake.h"

/* Listeners hear of a queue at most as often. */
#define GD_NEWS_WINDOW INT64CONST(100000)	/* microseconds */

/* A queue that the scheduler is to look at. */
typedef struct GdNews
{
	int			slot;
	GdWakeKey	key;
	int			len;
	char		name[GD_NAME_MAX];
} GdNews;

extern Size gd_news_size(void);
extern void gd_news_attach(void *start, bool first);

extern bool gd_news_wanted(void);
extern void gd_news_tell(GdWakeKey key, const text *queue, TimestampTz due);
extern void gd_news_tell_all(void);

/* For the scheduler. */
extern void gd_news_attend(bool wanted);
extern bool gd_news_take_all(void);
extern bool gd_news_take(TimestampTz now, GdNews *news);
extern bool gd_news_keep(GdWakeKey key, const text *queue, TimestampTz due);
extern void gd_news_sent(const GdNews *news, TimestampTz now, TimestampTz due);
extern TimestampTz gd_news_next(void);

#endif							/* GEN_DURABLE_NEWS_H */
