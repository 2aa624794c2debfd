/* Looks names up with getaddrinfo, both families, and prints the addresses. */
#include <stdio.h>
#include <string.h>
#include <netdb.h>
#include <arpa/inet.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct addrinfo hints, *found, *a;
        memset(&hints, 0, sizeof hints);
        hints.ai_socktype = SOCK_STREAM;
        int fault = getaddrinfo(argv[i], "80", &hints, &found);
        if (fault) { printf("%s: error %d\n", argv[i], fault); continue; }
        for (int v6 = 0; v6 < 2; v6++)
            for (a = found; a; a = a->ai_next) {
                char text[64];
                if ((a->ai_family == AF_INET6) != v6) continue;
                void *ip = v6 ? (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr
                              : (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr;
                printf("%s %s\n", argv[i], inet_ntop(a->ai_family, ip, text, sizeof text));
            }
        freeaddrinfo(found);
    }
    return 0;
}
