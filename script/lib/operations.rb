# frozen_string_literal: true

require "json"

# What script/embed writes from core/definitions/operations.json: C tables, the methods of each language, lists of the documentation.
class Operations
  ROW = Struct.new(:name, :takes, :web, :form, :part, :about, keyword_init: true)
  TAKES = %w[nothing ids payload handle handle_at record shards queue].freeze
  FORMS = %w[range fetch list].freeze

  def initialize(path)
    found = JSON.parse(File.read(path))
    @roles, @actions, @queries, @orders = %w[roles actions queries orders].map { |list| found.fetch(list).map { |row| ROW.new(**row.transform_keys(&:to_sym)) } }
    @actions.each { |row| raise "#{path}: #{row.name} takes #{row.takes.inspect}" unless TAKES.include?(row.takes) }
    @queries.each { |row| raise "#{path}: #{row.name} has the form #{row.form.inspect}" unless FORMS.include?(row.form) }
  end

  # @return [String] for definitions.h
  def c
    <<~C.chomp
      /* X(NUMBER, name): the roles of the dashboard, each of which may do what those before it may, but for the last. */
      #{c_table("ROLES", @roles) { [] }}
      /*
       * X(NUMBER, name, takes, role): takes is NOTHING, IDS, PAYLOAD, HANDLE, HANDLE_AT, RECORD, SHARDS or QUEUE; role is who may do it in the
       * dashboard, ADMIN or OPERATOR; NONE: it has no route there.
       */
      #{c_table("ACTIONS", @actions) { |row| [row.takes.upcase, (row.web || "none").upcase] }}
      /* X(NUMBER, name, form, descending): form is RANGE, FETCH or LIST; descending names the route of a RANGE that descends. */
      #{c_table("QUERIES", @queries) { |row| [row.form.upcase, row.form == "range" ? descending(row) : "none"] }}
      /* X(NUMBER, name) */
      #{c_table("ORDERS", @orders) { [] }}
    C
  end

  # @return [Hash{String => Hash{String => String}}] path => text by the name of its place, which these lines mark, in the core
  def core_blocks = { "core/web/app/session.js" => { "roles" => "const ROLES = #{["nobody", *@roles.map(&:name)].to_json.gsub(",", ", ")};\n" } }

  # @return [Hash{String => Hash{String => String}}] the same outside of the core
  def blocks
    { "ruby/lib/seriatim/client/actions.rb" => { "actions" => methods.map { |row| ruby_action(row) }.join("\n") },
      "ruby/lib/seriatim/client/queries.rb" => { "queries" => made.map { |row| ruby_query(row) }.join("\n") },
      "ruby/lib/seriatim/web.rb" => { "roles" => "    ROLES = { nil => 0, #{numbered_roles(": ")} }.freeze\n" },
      "python/seriatim/_web/dashboard.py" => { "roles" => "ROLES: Final = (#{@roles.map { |row| row.name.inspect }.join(", ")})\n" },
      "lua/seriatim/web/dashboard.lua" => { "roles" => "local ROLES = { #{numbered_roles(" = ")} }\n" },
      "python/seriatim/_client/actions.py" => { "actions" => methods.map { |row| python_action(row) }.join("\n") },
      "python/seriatim/_client/queries.py" => { "queries" => made.map { |row| python_query(row) }.join("\n") },
      "python/seriatim/_native.pyi" => { "names" => types { |name, rows| "#{name} = Literal[\n#{wrapped("#{rows.map { |row| row.name.inspect }.join(", ")},", "    ", 120)}]" } },
      "lua/seriatim/client/actions.lua" => { "actions" => methods.map { |row| lua_action(row) }.join("\n") },
      "lua/seriatim/client/queries.lua" => { "queries" => made.map { |row| lua_query(row) }.join("\n") },
      "docs/guides/several-languages.md" => { "actions" => list(methods.map { |row| "`#{row.name}#{arguments(row)}`: #{row.about}" }),
                                              "queries" => list(@queries.map { |row| "`#{row.name}#{query_arguments(row)}`: #{row.about}" }) },
      "docs/reference/http-api.md" => { "actions" => web_list } }
  end

  # @return [String] for lua/types/definitions.lua
  def lua_types = types { |name, rows| "---@alias seriatim.#{name} \"#{rows.map(&:name).join('"|"')}\"" }

  private

  def c_table(name, rows)
    lines = rows.map { |row| "    X(#{[row.name.upcase, row.name, *yield(row)].join(", ")}) /* #{row.about} */" }
    "#define SERIATIM_#{name}(X) \\\n#{lines.join(" \\\n")}\n#define SERIATIM_#{name}_COUNT #{rows.size}\n"
  end

  # In C nobody is 0.
  def numbered_roles(between) = @roles.each.with_index(1).map { |row, number| "#{row.name}#{between}#{number}" }.join(", ")

  # Those that each language makes a method of.
  def methods = @actions.reject { |row| %w[record queue].include?(row.takes) }
  def made = @queries.reject { |row| row.form == "list" }
  def descending(row) = row.name.sub("range", "rev_range")

  ARGUMENTS = { "nothing" => "", "ids" => "ids", "payload" => "id, payload", "handle" => "handle", "handle_at" => "handle, at",
                "shards" => "shards" }.freeze
  # Those that each language writes by hand.
  LISTS = { "processing_data" => "", "parked" => "", "range_by_deliver_at" => "(min, max)" }.freeze
  CALLS = { "nothing" => "act", "ids" => "act_on", "payload" => "act_on_payload", "handle" => "act_on_handle", "handle_at" => "act_on_handle",
            "shards" => "act_on_shards" }.freeze

  def arguments(row) = row.takes == "nothing" ? "" : "(#{ARGUMENTS.fetch(row.takes)})"
  def query_arguments(row) = { "fetch" => "(ids)", "range" => "(min, max)" }[row.form] || LISTS.fetch(row.name)
  def call(row) = [row.name.inspect, *(ARGUMENTS[row.takes] unless row.takes == "nothing")].join(", ")
  def on_handle?(row) = row.takes.start_with?("handle")

  def wrapped(text, before, width)
    text.scan(/\S.{0,#{width - before.size - 1}}(?=\s|\z)/).map { |line| "#{before}#{line}\n" }.join
  end

  # A type of the names of each list.
  def types = { "ActionName" => @actions, "QueryName" => @queries, "OrderName" => @orders }.map { |name, rows| "#{yield name, rows}\n" }.join

  # ---- Ruby

  def ruby_action(row)
    at = { "handle_at" => "    # @param at [Time, Numeric] Unix seconds\n", "shards" => "    # @param shards [Integer] 1 to 4096\n" }[row.takes]
    "#{wrapped(row.about, "    # ", 140)}#{at}    # @return [#{on_handle?(row) ? "Boolean" : "Integer"}]\n" \
      "    def #{row.name}#{arguments(row)} = #{CALLS.fetch(row.takes)}(#{call(row)})\n"
  end

  def ruby_query(row)
    about = "#{wrapped(row.about, "    # ", 140)}    # @return [Array<Hash>]\n"
    fields = row.part == "dead" ? "DEAD" : "WAITING"
    return "#{about}    def #{row.name}(ids) = fetched(#{row.name.inspect}, #{fields}, ids)\n" if row.form == "fetch"

    "#{about}    def #{row.name}(min, max, limit: 10) = range(#{row.name.inspect}, #{fields}, min, max, limit)\n\n" \
      "    # The same, descending.\n    # @return [Array<Hash>]\n" \
      "    def #{descending(row)}(max, min, limit: 10) = range(#{row.name.inspect}, #{fields}, min, max, limit, reverse: true)\n"
  end

  # ---- Python

  PYTHON_ARGUMENTS = { "nothing" => "", "ids" => ", ids: Sequence[AnyId]", "payload" => ", id: AnyId, payload: Any", "handle" => ", handle: str",
                       "handle_at" => ", handle: str, at: SupportsFloat | datetime", "shards" => ", shards: int" }.freeze

  def python_action(row)
    "    def #{row.name}(self#{PYTHON_ARGUMENTS.fetch(row.takes)}) -> #{on_handle?(row) ? "bool" : "int"}:\n" \
      "#{docstring(row.about)}        return self._#{CALLS.fetch(row.takes)}(#{call(row)})\n"
  end

  def python_query(row)
    record = row.part == "dead" ? "DeadRecord" : "Record"
    return <<~PYTHON.gsub(/^(?=.)/, "    ") if row.form == "fetch"
      def #{row.name}(self, ids: Sequence[AnyId]) -> list[#{record}]:
      #{docstring(row.about).gsub(/^    /, "").chomp}
          return self._ask(#{row.name.inspect}, #{record}, ids=ids, limit=MAX_RECORDS)
    PYTHON

    <<~PYTHON.gsub(/^(?=.)/, "    ")
      def #{row.name}(self, min: Bound, max: Bound, *, limit: int = 10) -> list[#{record}]:
      #{docstring(row.about).gsub(/^    /, "").chomp}
          return self._ask(#{row.name.inspect}, #{record}, min=min, max=max, limit=limit)

      def #{descending(row)}(self, max: Bound, min: Bound, *, limit: int = 10) -> list[#{record}]:
          """The same, descending."""
          return self._ask(#{row.name.inspect}, #{record}, reverse=True, min=min, max=max, limit=limit)
    PYTHON
  end

  def docstring(text)
    text.size <= 120 ? "        \"\"\"#{text}\"\"\"\n" : "        \"\"\"\n#{wrapped(text, "        ", 130)}        \"\"\"\n"
  end

  # ---- Lua

  LUA_TYPES = { "ids" => "seriatim.Id[]", "id" => "seriatim.Id", "payload" => "any", "handle" => "string", "at" => "number  Unix seconds",
                "shards" => "integer  1 to 4096" }.freeze

  def lua_action(row)
    parameters = ARGUMENTS.fetch(row.takes).split(", ").map { |name| "---@param #{name} #{LUA_TYPES.fetch(name)}\n" }.join
    "#{wrapped(row.about, "---", 140)}#{parameters}---@return #{on_handle?(row) ? "boolean" : "integer"}?\n---@return seriatim.Error? err\n" \
      "function Actions:#{row.name}(#{ARGUMENTS.fetch(row.takes)})\n  return #{CALLS.fetch(row.takes)}(self, #{call(row)})\nend\n"
  end

  def lua_query(row)
    fields, record = row.part == "dead" ? %w[DEAD seriatim.DeadRecord] : %w[LIVING seriatim.Record]
    about = wrapped(row.about, "---", 140)
    returns = "---@return #{record}[]?\n---@return seriatim.Error? err\n"
    return <<~LUA if row.form == "fetch"
      #{about}---@param ids seriatim.Id[]
      #{returns}function Queries:#{row.name}(ids)
        return fetched(self, #{fields}, #{row.name.inspect}, ids)
      end
    LUA

    [[row.name, about, %w[min max], false], [descending(row), "---The same, descending.\n", %w[max min], true]].map do |name, text, bounds, reverse|
      "#{text}#{bounds.map { |bound| "---@param #{bound} seriatim.Bound\n" }.join}---@param options seriatim.QueryOptions?  limit 10\n#{returns}" \
        "function Queries:#{name}(#{bounds.join(", ")}, options)\n  return range(self, #{fields}, #{row.name.inspect}, #{reverse}, min, max, options)\nend\n"
    end.join("\n")
  end

  # ---- Documentation

  def list(items) = items.map { |item| wrapped(item, "  ", 100).sub(/\A  /, "- ") }.join

  WEB_FIELDS = { "ids" => "with `{\"ids\": [...]}` (at most 1,000)", "nothing" => "without fields",
                 "payload" => "with `{\"id\": ID, \"key\": KEY}` (as a form `id=ID&key=KEY`)",
                 "handle" => "with `{\"handle\": HANDLE}`", "handle_at" => "with `{\"handle\": HANDLE, \"at\": UNIX_SECONDS}`",
                 "shards" => "with `{\"shards\": NUMBER}`" }.freeze

  def web_list
    groups = @actions.select(&:web).group_by { |row| [row.web, row.takes] }.sort_by { |(role, takes), _| [role == "admin" ? 1 : 0, TAKES.index(takes)] }
    list(groups.map { |(role, takes), rows| "#{role}, #{WEB_FIELDS.fetch(takes)}: #{rows.map { |row| "`#{row.name}`" }.join(", ")}" })
  end
end
