/*
 * What requests may take of memory while they are read: bodies as they come
 * in, and those that become JSON, chat texts and tokens, which takes many
 * times their size. Small ones do not wait for large ones.
 */
#include <time.h>

#include "serve_int.h"

void spt_serve_wait(spt_serve *serve, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&serve->changed, &serve->lock, &until);
}

bool spt_serve_gate_take(spt_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    bool room = size <= SERVE_BODIES - serve->unread;
    serve->unread += room ? size : 0;
    pthread_mutex_unlock(&serve->lock);
    return room;
}

void spt_serve_gate_drop(spt_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    serve->unread -= size;
    pthread_mutex_unlock(&serve->lock);
}

bool spt_serve_gate_enter(spt_serve *serve, size_t size,
                          const serve_client *client)
{
    bool there = true;
    if (size <= SERVE_SMALL)
        return true;
    pthread_mutex_lock(&serve->lock);
    while (there && size > SERVE_BODY - serve->reading) {
        spt_serve_wait(serve, SERVE_LOOK_MS);
        there = !client->gone(client->user);
    }
    serve->reading += there ? size : 0;
    pthread_mutex_unlock(&serve->lock);
    return there;
}

void spt_serve_gate_leave(spt_serve *serve, size_t size)
{
    if (size <= SERVE_SMALL)
        return;
    pthread_mutex_lock(&serve->lock);
    serve->reading -= size;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
}
