/*
 * A load generator for iproto: N connections, a window of requests in flight on each, all packets encoded before the
 * clock starts. It prints operations a second, and fails if a reply is an error.
 *
 *   load HOST PORT MODE CONNECTIONS WINDOW OPERATIONS KEYS SPACE [seq|random [RATE]]
 *
 * MODE is replace, select or mixed (one of each in turn). A tuple is [key, 85 hexadecimal digits]: 93 bytes.
 * With a RATE no more requests a second are sent than that, by the clock: each connection has its share of them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 85, GREETING = 128, READ_SIZE = 1 << 18, REQUEST_MAX = 160 };

struct line {
	int fd;
	unsigned char *packets; /* all requests of this connection, one after another */
	uint32_t *ends;         /* offset after each request */
	long count;             /* requests in all */
	long allowed;           /* requests that may have been sent by now: replies + window */
	size_t sent;            /* bytes sent */
	long replies;
	unsigned char in[READ_SIZE + (1 << 16)];
	size_t have;            /* bytes in `in` */
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static unsigned char *put32(unsigned char *p, uint32_t v)
{
	*p++ = 0xce;
	v = htonl(v);
	memcpy(p, &v, 4);
	return p + 4;
}

static unsigned char *put_key(unsigned char *p, int tag, uint32_t space)
{
	*p++ = tag;
	*p++ = 0xcd;
	*p++ = space >> 8;
	*p++ = space & 0xff;
	return p;
}

static size_t encode(unsigned char *out, int select, uint32_t sync, uint32_t space, uint32_t key)
{
	unsigned char *p = out + 5;
	*p++ = 0x82; /* header {type, sync} */
	*p++ = 0x00;
	*p++ = select ? 1 : 3;
	*p++ = 0x01;
	p = put32(p, sync);
	if (select) {
		*p++ = 0x86; /* body {space, index, limit, offset, iterator, key} */
		p = put_key(p, 0x10, space);
		memcpy(p, "\x11\x00\x12\x01\x13\x00\x14\x00\x20\x91", 10);
		p += 10;
		p = put32(p, key);
	} else {
		*p++ = 0x82; /* body {space, tuple} */
		p = put_key(p, 0x10, space);
		*p++ = 0x21;
		*p++ = 0x92;
		p = put32(p, key);
		*p++ = 0xd9;
		*p++ = TEXT;
		uint64_t dice = (key + 1) * 0x9e3779b97f4a7c15ull; /* hexadecimal digits: half as long when compressed */
		for (int i = 0; i < TEXT; i++) {
			dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
			*p++ = "0123456789abcdef"[dice >> 60];
		}
	}
	put32(out, p - out - 5);
	return p - out;
}

static int dial(const char *host, int port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	char greeting[GREETING];
	if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (void *)&to, sizeof(to)))
		die("connect");
	for (size_t got = 0; got < GREETING;) {
		ssize_t n = read(fd, greeting + got, GREETING - got);
		if (n <= 0)
			die("greeting");
		got += n;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Send whole requests as far as the window goes. Returns 1 if the socket is full. */
static int feed(struct line *l)
{
	size_t limit = l->allowed ? l->ends[l->allowed - 1] : 0;
	while (l->sent < limit) {
		ssize_t n = write(l->fd, l->packets + l->sent, limit - l->sent);
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0)
			die("write");
		l->sent += n;
	}
	return 0;
}

static void check(const unsigned char *frame)
{
	/* The server's header is 83 00 ce <type32> …; anything else than 0 is an error. */
	if (frame[5] != 0x83 || frame[6] != 0 || frame[7] != 0xce || frame[8] || frame[9] || frame[10] || frame[11]) {
		fprintf(stderr, "a reply is an error or of another form\n");
		exit(1);
	}
}

static void take(struct line *l)
{
	ssize_t n = read(l->fd, l->in + l->have, READ_SIZE);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("the server closed the connection");
	l->have += n;
	size_t at = 0;
	while (l->have - at >= 12) {
		uint32_t length;
		memcpy(&length, l->in + at + 1, 4);
		length = ntohl(length) + 5;
		if (length > l->have - at)
			break;
		check(l->in + at);
		at += length;
		l->replies++;
	}
	l->have -= at;
	memmove(l->in, l->in + at, l->have);
}

/* What may have been sent by now, as far as the window, the clock (`due`) and the number of requests go. */
static void allow(struct line *l, long window, long due)
{
	long allowed = l->replies + window;
	if (allowed > l->count)
		allowed = l->count;
	if (allowed > due)
		allowed = due > l->allowed ? due : l->allowed;
	/* Refill only when a quarter of the window is free: whole batches, as a busy client sends. */
	if (allowed - l->allowed >= window / 4 || allowed == l->count || due < l->count)
		l->allowed = allowed;
}

/* Requests that a connection may have sent after so much time; the connections take turns. */
static long due(double time, double rate, long line, int lines)
{
	return (long)(time * rate + (double)line / lines);
}

int main(int argc, char **argv)
{
	if (argc < 9) {
		fprintf(stderr, "usage: %s HOST PORT MODE CONNECTIONS WINDOW OPERATIONS KEYS SPACE [seq|random [RATE]]\n", argv[0]);
		return 2;
	}
	const char *mode = argv[3];
	int lines = atoi(argv[4]);
	long window = atol(argv[5]), operations = atol(argv[6]);
	uint32_t keys = atol(argv[7]), space = atoi(argv[8]);
	int random = argc > 9 && !strcmp(argv[9], "random");
	double rate = argc > 10 ? atof(argv[10]) / lines : 0;
	long each = operations / lines;
	uint64_t dice = 88172645463325252ull;

	struct line *all = calloc(lines, sizeof(*all));
	for (int i = 0; i < lines; i++) {
		struct line *l = &all[i];
		l->count = each;
		l->packets = malloc((size_t)each * REQUEST_MAX);
		l->ends = malloc(each * sizeof(uint32_t));
		if (l->packets == NULL || l->ends == NULL)
			die("malloc");
		size_t end = 0;
		for (long n = 0; n < each; n++) {
			dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
			uint32_t key = random ? (dice >> 20) % keys : (uint32_t)((i * each + n) % keys);
			int select = mode[0] == 's' || (mode[0] == 'm' && n % 2);
			end += encode(l->packets + end, select, n + 1, space, key);
			l->ends[n] = end;
		}
		l->fd = dial(argv[1], atoi(argv[2]));
	}

	int poll = epoll_create1(0), open = lines;
	double begin = now(), paced = begin;
	for (int i = 0; i < lines; i++) {
		struct line *l = &all[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
		if (!rate)
			l->allowed = window < each ? window : each;
		if (feed(l))
			e.events |= EPOLLOUT;
		epoll_ctl(poll, EPOLL_CTL_ADD, l->fd, &e);
	}
	while (open) {
		struct epoll_event events[128];
		int n = epoll_wait(poll, events, 128, rate ? 1 : -1);
		double time = now() - begin;
		for (int i = 0; i < n; i++) {
			struct line *l = events[i].data.ptr;
			if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				take(l);
			if (l->replies == l->count) {
				epoll_ctl(poll, EPOLL_CTL_DEL, l->fd, NULL);
				open--;
				continue;
			}
			allow(l, window, rate ? due(time, rate, l - all, lines) : each);
			struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
			if (feed(l))
				e.events |= EPOLLOUT;
			if ((events[i].events & EPOLLOUT) || (e.events & EPOLLOUT))
				epoll_ctl(poll, EPOLL_CTL_MOD, l->fd, &e);
		}
		if (!rate || begin + time - paced < 1e-3)
			continue;
		paced = begin + time; /* a connection without replies in flight has nobody to wake it but the clock */
		for (int i = 0; i < lines; i++) {
			struct line *l = &all[i];
			if (l->replies == l->count)
				continue;
			allow(l, window, due(time, rate, i, lines));
			if (feed(l)) {
				struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = l};
				epoll_ctl(poll, EPOLL_CTL_MOD, l->fd, &e);
			}
		}
	}
	double seconds = now() - begin;
	printf("%.0f\n", each * lines / seconds);
	return 0;
}
