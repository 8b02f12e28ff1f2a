/* web_scan.c */
typedef int srt_web_scan_is_to_come;
