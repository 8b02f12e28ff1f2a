# frozen_string_literal: true

# What the page has to do without. A failure is said loudly and costs no other figure.
class Missing
  attr_reader :texts

  def initialize = @texts = []

  def note(text)
    warn "", "!!! MISSING: #{text}", ""
    @texts << text.lines.first.strip
  end

  # @return what the block gives, or nil
  def attempt(what)
    yield
  rescue StandardError => e
    note("#{what}: #{e.message}")
    nil
  end
end
