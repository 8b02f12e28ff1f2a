/* web_pages.c */
typedef int srt_web_pages_is_to_come;
