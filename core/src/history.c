/* history.c */
typedef int srt_history_is_to_come;
