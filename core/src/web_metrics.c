/* web_metrics.c */
typedef int srt_web_metrics_is_to_come;
