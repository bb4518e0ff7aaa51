# page.awk: a manual page in the language of scdoc, from a page of docs/man/. Everything is copied but
#   @help PROGRAM        what it says with --help: synopsis, description, options and so on
#   @commands PROGRAM    the same of each command that PROGRAM --help lists, one section each
#   @settings FILE       the settings of a commented configuration file
#   @header FILE         what the comments of a header say, and what they are about
# and @version, so that no page falls behind its program. Programs are in the folder `bin`, settings in `files`,
# and headers are named from `source`, the folder of the project.

# Terminals without UTF-8 have most characters that headers and programs use, but not this one.
function plain(text) {
    gsub(/…/, "...", text)
    return text
}

function escape(text) {
    text = plain(text)
    gsub(/[\\`_*#]/, "\\\\&", text)
    return text ~ /^[-.|;]/ ? "\\" text : text
}

function trim(text) {
    gsub(/^ +| +$/, "", text)
    return text
}

function fail(what) {
    print "page.awk: nothing for a manual page came from: " what >"/dev/stderr"
    exit failed = 1
}

# How a program is asked: it is not to break lines.
function asked(program, command) {
    return "ARGP_HELP_FMT=rmargin=9999 '" bin "/" program "' " command " --help"
}

function heading(title) {
    end_literal()
    print command == "" ? "\n# " toupper(escape(title)) : "\n*" escape(title) "*"
    under = title
}

function paragraph(text) {
    end_literal()
    print "\n" escape(text)
}

function literal_line(text) {
    if (!literal)
        print "\n```"
    literal = 1
    print plain(text)
}

function end_literal() {
    if (literal)
        print "```"
    literal = 0
}

# "  -c, --config=FILE   read this configuration file". What a program takes itself its commands take, too,
# and it stands in the page once.
function option(line,    names, text) {
    match(line, /^ +(-., )?-[^ ]+/)
    names = trim(substr(line, 1, RLENGTH))
    text = trim(substr(line, RLENGTH + 1))
    if (command != "" && names in common)
        return
    if (command == "") {
        common[names]
        if (under == "")
            heading("Options")
    }
    if (group != "")
        paragraph(group)
    group = ""
    print "\n*" escape(names) "*"
    if (text != "")
        print "\t" escape(text)
}

# What a line of text is, by how it begins.
function text(line) {
    if (match(line, /^(Exit status|Examples|Commands \(.*\)): ?/)) {
        rest = substr(line, RLENGTH + 1)
        heading(substr(line, 1, match(line, /( \(|:)/) - 1))
        if (rest != "")
            paragraph(rest)
    } else {
        if (under == "Options")
            heading("Notes")
        paragraph(line)
    }
}

function help(program,    from, line) {
    from = asked(program, command)
    under = group = ""
    while ((from | getline line) > 0) {
        if (line ~ /^[Uu]sage: /) {
            if (command == "")
                heading("Synopsis")
            paragraph(substr(line, 8))
            if (command == "")
                heading("Description")
            under = ""
        } else if (line ~ /^ *$/ || line ~ /^Mandatory or optional arguments/)
            end_literal()
        else if (line ~ /^ +-/)
            option(line)
        else if (line ~ /^ [^ ].*:$/)
            group = trim(line)
        else if (line ~ /^  /)
            literal_line(line)
        else
            text(line)
    }
    end_literal()
    if (close(from) != 0)
        fail(from)
}

function commands(program,    from, line, names, name, count, i) {
    from = asked(program, "")
    while ((from | getline line) > 0)
        if (line ~ /^Commands /)
            names = " "
        else if (names && line ~ /^  [a-z]/)
            names = names substr(line, 1, match(substr(line, 3), / |$/) + 1)
        else if (line ~ /^ *$/ && names ~ /[a-z]/)
            break
    close(from)
    count = split(trim(names), name, / +/)
    if (count == 0)
        fail(from)
    for (i = 1; i <= count; i++) {
        print "\n## " program " " name[i]
        command = name[i]
        help(program)
    }
    command = ""
}

# What was read last: a comment is about the keys below it, up to the next comment, or about none.
function end_settings() {
    printf "%s", keys
    if (comment != "")
        print (keys == "" ? "\n" : "\t") escape(comment)
    keys = comment = ""
}

function settings(file,    line) {
    while ((getline line <file) > 0)
        if (line ~ /^# [a-z_]+ =( |$)/)
            keys = keys "\n*" escape(substr(line, 3)) "*\n"
        else {
            if (keys != "" || line !~ /^# /)
                end_settings()
            if (line ~ /^\[/)
                print "\n## " line
            else if (line ~ /^# /)
                comment = comment (comment == "" ? "" : " ") substr(line, 3)
        }
    end_settings()
    if (close(file) != 0)
        fail(file)
}

# What of a comment was read so far is a paragraph.
function end_words() {
    if (words != "")
        print parameter != "" ? "\n*" escape(parameter) "*\n\t" escape(words) : "\n" escape(words)
    words = parameter = ""
}

# A comment's lines: paragraphs, parameters, and tables, which are indented.
function explain(lines,    line, count, i) {
    count = split(lines, line, "\n")
    for (i = 1; i <= count; i++) {
        if (match(line[i], /^@param /)) {
            end_literal()
            end_words()
            match(line[i], /^@param [^ ]+(, [^ ]+)* */)
            parameter = trim(substr(line[i], 8, RLENGTH - 7))
            words = substr(line[i], RLENGTH + 1)
        } else if (line[i] ~ /^  / && parameter == "") {
            end_words()
            literal_line(line[i])
        } else if (line[i] == "") {
            end_literal()
            end_words()
        } else {
            end_literal()
            if (parameter != "" && line[i] !~ /^ /)
                end_words()
            words = words (words == "" ? "" : " ") trim(line[i])
        }
    }
    end_literal()
    end_words()
}

# Declarations, and below them what the comment before them said. A comment without any is about a group of them.
function end_declaration(    line, count, i) {
    if (code != "" && said != "") {
        count = split(code, line, "\n")
        for (i = 1; i < count; i++)
            literal_line(line[i])
        end_literal()
    }
    if (code == "" || said != "")
        explain(said)
    code = said = ""
}

# A line of a comment, of which `said` has those before.
function comment_line(line) {
    inside = line !~ /\*\/ *$/
    sub(/ *\*\/ *$/, "", line)
    if (match(line, / ----( |$)/) && line ~ /^---- /) {
        print "\n# " toupper(substr(line, 6, RSTART - 6))
        line = ""
    }
    said = said (said == "" ? "" : "\n") line
}

function header(file,    line, nested) {
    file = source "/" file
    while ((getline line <file) > 0)
        if (inside) {
            sub(/^ *(\* |\*$)/, "", line)
            comment_line(line)
        } else if (!nested && line ~ /^\/\*/) {
            end_declaration()
            sub(/^\/\*\*? ?/, "", line)
            comment_line(line)
        } else if (line ~ /^ *$/ && !nested)
            end_declaration()
        else if (line !~ /^#(if|endif|include|define BLINK_[A-Z]+_H$)|^extern "C"/) {
            code = code line "\n"
            nested = line ~ /^typedef (struct|enum) .*\{$/ || (nested && line !~ /^\}/)
        }
    end_declaration()
    if (close(file) != 0)
        fail(file)
}

/^@help / {
    help($2)
    next
}
/^@commands / {
    commands($2)
    next
}
/^@settings / {
    settings(files "/" $2)
    next
}
/^@header / {
    header($2)
    next
}
{
    gsub(/@version/, version)
    print
}
END { exit failed }
