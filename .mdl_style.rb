all
rule 'MD013', line_length: 120, tables: false, ignore_code_blocks: true
rule 'MD029', style: :ordered
exclude_rule 'MD033' # placeholders such as <ms> and images of a given width
exclude_rule 'MD046' # commands are indented, configurations fenced
exclude_rule 'MD014' # a prompt tells a command from its output
