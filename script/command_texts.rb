# frozen_string_literal: true

require "json"

# What the command says of itself, from core/command/command.json: help, the manual page and the shells' completion, the same in each
# language. `{program}` stands for seriatim or seriatim-lua.
class CommandTexts
  WIDTH = 100

  def initialize(path)
    @table = JSON.parse(File.read(path, encoding: "UTF-8"), symbolize_names: true)
    @verbs = @table.fetch(:verbs)
    @options = @table.fetch(:options)
    unknown = [*@table[:common], *@verbs.flat_map { |verb| verb[:options] }].map(&:to_sym) - @options.keys
    raise "#{path}: unknown options #{unknown.join(", ")}" if unknown.any?

    wrong = @verbs.select { |verb| only(verb).keys.map(&:name).difference(verb[:options]).any? || only(verb).values.flatten.difference(verb.fetch(:actions, [])).any? }
    raise "#{path}: `only` must name options and actions of its verb: #{wrong.map { |verb| verb[:name] }.join(", ")}" if wrong.any?
  end

  # @return [Hash{String => String}] topic => text
  def all
    { "verbs" => @verbs.map { |verb| verb[:name] }.join(" "), "help" => help,
      **@verbs.to_h { |verb| ["help #{verb[:name]}", verb_help(verb)] },
      "options" => command_lines.map { |line, keys| "#{line}: #{(@table[:common] | keys).join(" ")}\n" }.join,
      **(@options.keys.map(&:name) - @table[:common]).to_h { |key| ["option #{key}", owners(key)] },
      "completion bash" => bash, "completion zsh" => "autoload -Uz bashcompinit && bashcompinit\n#{bash}", "completion fish" => fish, "man" => man }
  end

  # @return [String] docs/reference/command.md
  def markdown
    <<~MARKDOWN
      # The command

      <!-- Written by script/embed from core/command/command.json. -->

      `seriatim` (gem and Python package) and `seriatim-lua` have the same verbs, options and exit codes. [Settings](../guides/configuration.md)
      lists what a file for `-C` may hold, the environment variables and the fields of the log. The manual page says the same as this page:
      `seriatim man | man -l -`, or [its source](seriatim.1).

      The packages install the manual page and the completions of bash, zsh and fish:

      | package | where they lie | how to enable them |
      |---|---|---|
      | gem | `core/package/seriatim/` in the gem's folder (`gem contents seriatim`) | `man -l FOLDER/seriatim.1`; `source FOLDER/seriatim.bash` in `~/.bashrc`; `source FOLDER/seriatim.zsh` in `~/.zshrc`, after `compinit`; `source FOLDER/seriatim.fish` in `~/.config/fish/config.fish` |
      | Python package | `share/man/man1/seriatim.1`, `share/bash-completion/completions/seriatim.bash`, `share/seriatim/seriatim.zsh` and `share/fish/vendor_completions.d/seriatim.fish` in the environment (`sys.prefix`) | `man seriatim`, once the environment's `bin` is in `PATH`; bash, zsh and fish: `source` the file, as above |
      | rock | `core/package/seriatim-lua/` in the rock's folder (`luarocks show --rock-dir seriatim`) | as the gem's, with the name `seriatim-lua` |

      The C library has no command, but `cmake --install` installs those of both commands for all users of the machine: `PREFIX/share/man/man1`,
      `PREFIX/share/bash-completion/completions` and `PREFIX/share/fish/vendor_completions.d`, where `man`, bash and fish find them if `PREFIX` is `/usr`
      or `/usr/local`. The files of zsh lie in `PREFIX/share/seriatim`: `source` the one of your command in `~/.zshrc`, after `compinit`.

      #{@verbs.map { |verb| markdown_verb(verb) }.join("\n")}
      ## Options of all verbs

      #{markdown_options(@table[:common])}

      Every verb also takes `-C FILE`, as [server](#server) does; in Ruby the file may hold `redis` and `namespace`
      ([its keys](../guides/configuration.md#the-file-of--c)).

      ## Exit codes

      | code | meaning |
      |---|---|
      #{@table[:exit].map { |code, about| "| #{code} | #{markdown_text(about)} |" }.join("\n")}

      ## Redis

      #{markdown_text(@table[:redis])} [Which URL wins](../guides/configuration.md#precedence) if several are set.
    MARKDOWN
  end

  private

  # ---- whose the options are

  # @return [Hash{Symbol => Array<String>}] the actions of a verb, for the options that not all of them have
  def only(verb) = verb.fetch(:only, {})

  # Each verb, and each verb with its action, with the options that it has. A verb that may stand without an action has those of its first.
  # @return [Hash{String => Array<String>}]
  def command_lines
    @verbs.each_with_object({}) do |verb, lines|
      first = verb[:actions].first if verb[:usage].include?(verb[:name]) && verb[:actions]
      lines[verb[:name]] = first ? options_of(verb, first) : verb[:options]
      verb[:actions]&.each { |action| lines["#{verb[:name]} #{action}"] = options_of(verb, action) }
    end
  end

  def options_of(verb, action) = verb[:options].select { |key| only(verb).fetch(key.to_sym, [action]).include?(action) }

  # What an error says of an option that another verb has.
  def owners(key)
    *others, last = @verbs.select { |verb| verb[:options].include?(key) }.flat_map do |verb|
      only(verb)[key.to_sym]&.map { |action| "#{verb[:name]} #{action}" } || verb[:name]
    end
    "#{@options.fetch(key.to_sym)[:names].join(", ")} is an option of #{[*(others.join(", ") if others.any?), last].join(" and ")}"
  end

  # ---- the page of the documentation

  def markdown_verb(verb)
    rows, lines = verb[:text].partition { |line| line.start_with?("  ") }
    signals = rows.map { |line| "- **#{line.strip.sub(/  +/, "**: ")}" }
    options = verb[:options].empty? ? [] : [markdown_options(verb[:options], verb), ""]
    ["## #{verb[:name]}", "", "```text", *verb[:usage].map { |usage| "seriatim #{usage}" }, "```", "",
     "#{markdown_text(verb[:about][0].upcase + verb[:about][1..])}.", "",
     *lines.reject(&:empty?).flat_map { |line| [markdown_text(line), ""] },
     *signals, *("" if signals.any?), *options].join("\n")
  end

  def markdown_options(keys, verb = {})
    ["| option | what it does |", "|---|---|",
     *keys.map { |key| option_row(key, verb) }.map { |left, about| "| `#{left.strip}` | #{markdown_text(about)} |" }].join("\n")
  end

  def markdown_text(text) = text.gsub("{program}", "seriatim").gsub(/[|<]/) { |sign| "\\#{sign}" }

  def rows(pairs)
    width = pairs.map { |left, _| left.size }.max.to_i
    pairs.map { |left, right| "  #{left.ljust(width)}  #{right}".rstrip }
  end

  def option_row(key, verb = {})
    option = @options.fetch(key.to_sym)
    names = option[:names].join(", ")
    names = "    #{names}" if names.start_with?("--")
    [[names, option[:value]].compact.join(" "), about(key, verb)]
  end

  def about(key, verb) = [*only(verb)[key.to_sym]&.join(", "), @options.fetch(key.to_sym)[:about]].join(": ")

  def wrapped(lines) = lines.flat_map { |line| wrap(line) }

  def wrap(line)
    return [""] if line.empty?

    indent = " " * (line.start_with?("  ") ? line[/\A *\S.*?  +/].size : 0)
    line.gsub(/(.{1,#{WIDTH - indent.size}})(?: |\z)/) { "#{$1}\n" }.lines(chomp: true).each_with_index.map { |part, at| at.zero? ? part : indent + part }
  end

  # ---- help

  def help
    pairs = @verbs.flat_map { |verb| verb[:usage].each_with_index.map { |usage, at| [usage, at.zero? ? verb[:about] : ""] } }
    ["Usage: {program} VERB ...", "", *rows(pairs), "", *wrap(@table[:redis]), "", "Options of all verbs:",
     *rows(@table[:common].map { |key| option_row(key) }), "", "{program} help VERB tells a verb's own options.", ""].join("\n")
  end

  def verb_help(verb)
    usage = verb[:usage].each_with_index.map { |text, at| "#{at.zero? ? "Usage:" : "      "} {program} #{text}" }
    text = verb[:text].empty? ? [] : ["", *wrapped(verb[:text])]
    options = verb[:options].map { |key| option_row(key, verb) }
    others = (@table[:common] - verb[:options]).map { |key| option_row(key) }
    [*usage, "", "#{verb[:about][0].upcase}#{verb[:about][1..]}.", *text,
     *(options.empty? ? [] : ["", "Options:", *rows(options)]), "", "Options of all verbs:", *rows(others), ""].join("\n")
  end

  # ---- completion

  def words_of(keys) = keys.flat_map { |key| @options.fetch(key.to_sym)[:names] }.join(" ")

  # compgen expands its words, command substitution included: of the queues it gets those whose names hold nothing that a shell expands.
  def bash
    cases = @verbs.map { |verb| "    #{verb[:name]}) words='#{[*verb[:actions], words_of(verb[:options])].join(" ").strip}'#{bash_args(verb)} ;;" }
    <<~BASH
      _seriatim_queues() {
        "$1" queues 2>/dev/null | LC_ALL=C awk 'NR > 1 && $1 ~ /^[A-Za-z0-9_.:@+=,\\/\\200-\\377-]+$/ { print $1 }'
      }
      _seriatim() {
        local cur=${COMP_WORDS[COMP_CWORD]} verb='' words='' more='' at
        for ((at = 1; at < COMP_CWORD; at++)); do
          case " #{@verbs.map { |verb| verb[:name] }.join(" ")} " in *" ${COMP_WORDS[at]} "*) verb=${COMP_WORDS[at]}; break ;; esac
        done
        case $verb in
      #{cases.join("\n")}
          *) words='#{@verbs.map { |verb| verb[:name] }.join(" ")} #{words_of(@verbs.first[:options])}' ;;
        esac
        COMPREPLY=($(compgen -W "$words $more #{words_of(@table[:common])}" -- "$cur"))
        [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
      }
      complete -F _seriatim {program}
    BASH
  end

  def bash_args(verb)
    case verb[:args]
    when "queues" then "; more=$(_seriatim_queues \"$1\")"
    when "verbs" then "; more='#{@verbs.map { |other| other[:name] }.join(" ")}'"
    end
  end

  # fish shows a description beside each word, and completes files only where -F says so.
  def fish
    names = @verbs.map { |verb| verb[:name] }.join(" ")
    <<~FISH
      function __seriatim_verb
          for word in (commandline -opc)[2..-1]
              if contains -- $word #{names}
                  echo $word
                  return
              end
          end
          echo none
      end
      function __seriatim_queues
          set -l words (commandline -opc)
          command $words[1] queues 2>/dev/null | awk 'NR > 1 { print $1 }'
      end
      complete -c {program} -f
      #{[*@verbs.map { |verb| fish_word("none", verb[:name], verb[:about]) }, *@verbs.flat_map { |verb| fish_verb(verb) },
         *@table[:common].map { |key| fish_option(key) }].join("\n")}
    FISH
  end

  # Without a verb the options are those of the server, whose name may be left out.
  def fish_verb(verb)
    found = verb.equal?(@verbs.first) ? "none #{verb[:name]}" : verb[:name]
    words = { "queues" => "(__seriatim_queues)", "verbs" => @verbs.map { |other| other[:name] }.join(" ") }[verb[:args]]
    [*([*verb[:actions], *words].join(" ").then { |all| fish_word(found, all) unless all.empty? }),
     *(verb[:options] - @table[:common]).map { |key| fish_option(key, found, verb) }]
  end

  def fish_word(found, words, about = nil)
    ["complete -c {program} #{fish_if(found)} -a #{fish_text(words)}", *("-d #{fish_text(about)}" if about)].join(" ")
  end

  def fish_option(key, found = nil, verb = {})
    option = @options.fetch(key.to_sym)
    names = option[:names].map { |name| name.start_with?("--") ? "-l #{name[2..]}" : "-s #{name[1..]}" }
    value = { nil => nil, "PATH" => "-r -F", "FILE" => "-r -F" }.fetch(option[:value], "-x")
    ["complete -c {program}", *(fish_if(found) if found), *names, *value, "-d #{fish_text(about(key, verb))}"].join(" ")
  end

  def fish_if(found) = "-n 'contains -- (__seriatim_verb) #{found}'"

  def fish_text(text) = "'#{text.gsub(/[\\']/) { |sign| "\\#{sign}" }}'"

  # ---- the manual page

  def man
    [".TH SERIATIM 1", ".SH NAME", "seriatim \\- #{roff(@table[:about])}", ".SH SYNOPSIS",
     *@verbs.flat_map { |verb| verb[:usage] }.flat_map { |usage| [".B {program}", roff(usage), ".br"] },
     ".SH DESCRIPTION", roff(@table[:redis]), *@verbs.flat_map { |verb| man_verb(verb) },
     ".SH OPTIONS OF ALL VERBS", *man_options(@table[:common]), ".SH EXIT STATUS", *@table[:exit].flat_map { |code, about| [".TP", code, roff(about)] }, ""].join("\n")
  end

  def man_verb(verb)
    [".SH #{verb[:name].upcase}", roff("#{verb[:about][0].upcase}#{verb[:about][1..]}."),
     *verb[:text].map { |line| line.start_with?("  ") ? ".TP\n#{roff(line.strip.sub(/  +/, "\n"))}" : line.empty? ? ".PP" : ".PP\n#{roff(line)}" },
     *man_options(verb[:options], verb)]
  end

  def man_options(keys, verb = {})
    keys.flat_map do |key|
      left, about = option_row(key, verb)
      [".TP", ".B #{roff(left.strip)}", roff(about)]
    end
  end

  def roff(text) = text.gsub("\\", "\\e").gsub("-", "\\-").gsub(/^([.'])/, "\\\\&\\1")
end
