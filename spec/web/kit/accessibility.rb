# frozen_string_literal: true

# What a page makes hard for readers with a keyboard, a finger or a screen reader; `browser` has it open.
module Accessibility
  # What scrolls in its place and neither takes the focus nor holds anything that does (axe: scrollable-region-focusable).
  STUCK = <<~JS
    [...document.querySelectorAll("body *")].filter((e) => {
      const { overflowX: x, overflowY: y } = getComputedStyle(e);
      const scrolls = (/auto|scroll/.test(y) && e.scrollHeight > e.clientHeight + 1) || (/auto|scroll/.test(x) && e.scrollWidth > e.clientWidth + 1);
      return scrolls && e.checkVisibility() && e.tabIndex < 0 && !e.querySelector("a[href], button:enabled, input, select, [tabindex='0']");
    }).map((e) => e.outerHTML.slice(0, 100))
  JS
  # What is pressed, is smaller than 24 pixels, and lies within 24 pixels of another such thing (WCAG 2.5.8; axe: target-size).
  CROWDED = <<~JS
    (() => {
      const all = [...document.querySelectorAll("a[href], button, input, select")].filter((e) => e.checkVisibility({ opacityProperty: false }) && !e.closest("[inert]"))
        .map((e) => [e, e.closest("label.check")?.getBoundingClientRect() ?? e.getBoundingClientRect()]).filter(([e, r]) => r.width && getComputedStyle(e).display !== "inline" || e.closest(".group-ids"));
      const small = ([, r]) => r.width < 23.9 || r.height < 23.9;
      const middle = (r) => [r.x + r.width / 2, r.y + r.height / 2];
      const away = (r, [x, y]) => Math.hypot(Math.max(r.left - x, 0, x - r.right), Math.max(r.top - y, 0, y - r.bottom));
      return all.filter(small).filter(([e, r]) => all.some(([other, o]) => other !== e && away(o, middle(r)) < 12 && !other.contains(e) && !e.contains(other)))
        .map(([e]) => e.outerHTML.slice(0, 100));
    })()
  JS

  # All that axe-core knows, where AXE names its file.
  AXE = ENV["AXE"] && File.read(ENV["AXE"])
  AXE_RULES = %w[wcag2a wcag2aa wcag21a wcag21aa wcag22aa best-practice].freeze

  def violations
    return [] unless AXE

    browser.value("(() => { #{AXE}; return 1 })()")
    browser.value("axe.run({ runOnly: arguments[0] }).then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 100)).join(', ')}`))", AXE_RULES)
  end

  def faults = [browser.value(STUCK), browser.value(CROWDED), violations].flatten
end
