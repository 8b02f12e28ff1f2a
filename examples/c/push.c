/* push.c - pushes one job: ./push 17 '{"status":"paid"}' */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <seriatim.h>

/* Runs the operation that was begun on the link to its end. Returns SERIATIM_OK or why it failed. */
static int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        if ((status = seriatim_link_wait(link)) != SERIATIM_OK)
            break;
    return status;
}

static int push(seriatim_link *link, const char *id, const char *payload)
{
    seriatim_client *client = seriatim_link_client(link);
    seriatim_queue_settings settings;
    seriatim_job job;
    size_t queue;
    int status;

    seriatim_queue_settings_init(&settings);
    settings.name = "OrderWorker";
    settings.name_len = strlen(settings.name);
    settings.shards_count = 24; /* the first push creates the queue with this number of shards */
    if ((status = seriatim_client_queue(client, &settings, &queue)) != SERIATIM_OK)
        return status;

    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    if ((status = seriatim_push_begin(client, queue)) != SERIATIM_OK ||
        (status = seriatim_push_job(client, &job)) != SERIATIM_OK || /* call it once for each job of this push */
        (status = seriatim_push_send(client)) != SERIATIM_OK)
        return status;
    return drive(link);
}

int main(int argc, char **argv)
{
    const char *url = getenv("REDIS_URL");
    seriatim_error error;
    seriatim_link *link;
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: %s ID PAYLOAD\n", argv[0]);
        return 2;
    }
    if (seriatim_link_new(NULL, url ? url : "redis://127.0.0.1:6379", &link, &error) != SERIATIM_OK) {
        fprintf(stderr, "push: %s\n", error.message);
        return 2;
    }
    status = push(link, argv[1], argv[2]);
    if (status == SERIATIM_OK) {
        seriatim_push_counts counts = seriatim_push_result(seriatim_link_client(link));
        printf("added %zu, folded %zu, refused %zu\n", counts.added, counts.folded, counts.refused);
    } else {
        fprintf(stderr, "push: %s: %s\n", seriatim_status_name(status),
                seriatim_client_error(seriatim_link_client(link))->message);
    }
    seriatim_link_free(link);
    return status == SERIATIM_OK ? 0 : 1;
}
