"""Every lint rule as one row: its two levels, why it matters, how to fix it.

*Strict* is the level for publishing: what another reader would refuse is an error. *Lenient* is for importing: a
publisher's mistake is a warning, since the user cannot fix it, and advice about style is omitted (None). Documents that
cannot be read (no frontmatter, broken TOML, a path out of the folder) are errors of :data:`skillwire.codes.CODES` at
both levels. A test checks that ``tools/rule_examples.md`` has an example of each rule.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from skillwire.codes import CODES
from skillwire.errors import SkillwireError, SourceLocation
from skillwire.model.skill import Finding, Level

CheckLevel = Literal["strict", "lenient"]


class Rule(NamedTuple):
    """One row. ``level_strict`` and ``level_lenient`` are None where the rule is not applied."""

    summary: str
    level_strict: Level | None
    level_lenient: Level | None
    cause: str
    fix: str


# A row: the rule, its summary and its levels (strict, lenient), the cause, the fix.
# fmt: off
RULES: Final[dict[str, Rule]] = {
    # --- SKILL.md ----------------------------------------------------------------------------------------
    "NAME_FOLDER": Rule("The skill's name is not the name of its folder", "error", "warning",
        "Agents find a skill by its folder and show it by its name; the two must be one.",
        "Rename the folder, or change name in the frontmatter."),
    "SKILLS_PROTOCOL_ONLY": Rule("Only the Skills Protocol describes the skill", "warning", "warning",
        "The description is in skill.toml alone; other agents do not load the skill.",
        "Write name and description into SKILL.md as Agent Skills has them."),
    "NAME_RULE": Rule("The name breaks the rule for names", "error", "warning",
        "A name is 1-64 of a-z, 0-9 and hyphens, with no hyphen first, last or doubled, and no device name.",
        "Write it in lower case, with single hyphens between words."),
    "DESCRIPTION_LENGTH": Rule("The description is too long", "error", "warning",
        "Agents load every description at start; the format allows 1,024 characters.",
        "Describe what the skill does and when to use it, and move the rest into the body."),
    "COMPATIBILITY_LENGTH": Rule("The compatibility is too long", "error", "warning",
        "The format allows 500 characters.",
        "Name what the skill needs, and move the rest into the body."),
    "FIELD_FORM": Rule("A field of the frontmatter has the wrong form", "error", "warning",
        "Other readers refuse the whole skill, or lose the field.",
        "Write text; metadata alone is a map, from text to text."),
    "FIELD_EMPTY": Rule("A field of the frontmatter is empty", "error", "warning",
        "Readers treat an empty field differently.",
        "Fill the field, or remove its line."),
    "FIELD_UNKNOWN": Rule("The format does not know this field", "error", "warning",
        "A misspelt field is silently ignored; the reference validator refuses unknown ones.",
        "Correct the name. Put your own fields under metadata."),
    "FLOW_STYLE": Rule("The frontmatter uses flow style", "error", None,
        "The reference validator reads plain YAML without [lists] and {maps} in brackets.",
        "Write each member on a line of its own, indented."),
    "FRONTMATTER_HYPHENS": Rule("The frontmatter contains three hyphens", "error", None,
        "Some readers, the reference validator among them, end the frontmatter at the first '---' anywhere.",
        "Use a dash, or other words."),
    "FRONTMATTER_YAML": Rule("The frontmatter is YAML that not every reader reads", "error", None,
        "A tab, and the values = and <<, are refused or read as something else by some readers.",
        "Write spaces instead of tabs, and put such a value into words."),
    "FRONTMATTER_TYPED": Rule("A value without quotes is not text to every reader", "warning", None,
        "Readers of YAML take it for a number, a truth value, nothing or a date; some then drop the whole skill.",
        "Put the value into quotes."),
    "BYTE_ORDER_MARK": Rule("The file begins with a byte order mark", "error", "warning",
        "Many readers then do not see the '---' of the first line.",
        "Save the file as UTF-8 without a byte order mark."),
    "SKILL_MD_CASE": Rule("The file is not called SKILL.md in capitals", "error", "warning",
        "It works where file systems ignore case, and is not found on a server.",
        "Rename the file to SKILL.md."),
    "SYMLINK_TEXT": Rule("The file holds the text of a symbolic link", "error", "error",
        "A link in a repository was checked out, or served, as a file that holds the path it pointed to.",
        "Put the real file there."),
    "ALLOWED_TOOLS_COMMA": Rule("The allowed tools are separated by commas", "warning", "note",
        "allowed-tools is one text with spaces between the tools.",
        "Write spaces instead of commas."),
    "BODY_EMPTY": Rule("The body is empty", "warning", "note",
        "The frontmatter describes when to use a skill; an agent then reads the body.",
        "Write the instructions below the frontmatter."),
    "PLACEHOLDER": Rule("Text of a template was left in place", "warning", "warning",
        "Agents choose a skill by its description and follow its body; a template's words mislead them.",
        "Replace it by what this skill does."),
    "BODY_LINES": Rule("The body is long", "warning", None,
        "An agent loads the whole body when it activates the skill; fewer than 500 lines are advised.",
        "Move details into files under references/ and link them."),
    "BODY_TOKENS": Rule("The body costs many tokens", "warning", None,
        "An agent loads the whole body when it activates the skill; fewer than 5,000 tokens are advised.",
        "Move details into files under references/ and link them."),
    "VERSION_MISSING": Rule("The skill has no version", "warning", None,
        "It is published as 0.1.0, so its states cannot be distinguished.",
        "Write a version under metadata in SKILL.md, or in skill.toml."),
    "VERSION_FORM": Rule("The version is not of Semantic Versioning", "warning", None,
        "Filters such as >=1.2 compare three numbers; the skill is published as 0.1.0.",
        'Write three numbers in quotes: version: "1.0.0".'),
    # --- skill.toml and descriptor.json ------------------------------------------------------------------
    "MANIFEST_UNKNOWN": Rule("skill.toml has an unknown field", "error", "warning",
        "A misspelt field is silently ignored.",
        "Correct the name; skillwire explain --schema skill.toml lists the fields."),
    "MANIFEST_DIFFERS": Rule("skill.toml and SKILL.md differ", "warning", "note",
        "Readers prefer one or the other; skillwire prefers skill.toml.",
        "State it in one file only, or equally in both."),
    "ENTRYPOINT_ABSENT": Rule("The entry point is not in the folder", "error", "error",
        "The runtime would have nothing to run.",
        "Add the file, or correct entrypoint in skill.toml."),
    "ENTRYPOINT_BROKEN": Rule("The entry point can never run", "error", "warning",
        "It is not Python, or has no function of the name that skill.toml gives; every execution would fail.",
        "Correct the file, or export in skill.toml."),
    "EXECUTOR_FUNCTION": Rule("The skill is a function, and a folder holds none", "error", None,
        "A function is code of the publisher's own process; a folder that names one could open it to others.",
        "Register the function with skillwire.Publisher, or write an [executor] of another kind."),
    "DESCRIPTOR_FORM": Rule("descriptor.json is not a Skill Descriptor", "error", "error",
        "It is served unchanged, so it must fit the schema and lead clients to safe calls only.",
        "Correct the field shown, or remove the file: a descriptor is then made from skill.toml."),
    "DESCRIPTOR_DIFFERS": Rule("descriptor.json and skill.toml differ", "error", "error",
        "The descriptor is served as it is: one skill would have two ids, or be public to some and private to others.",
        "Keep the field in one of the two files, or make both equal."),
    "IDENTIFIER_COLLISION": Rule("Two skills have one identifier", "error", "error",
        "In that protocol, callers could not choose between the two.",
        "Give one of them another name, or set the identifier in its skill.toml."),
    # --- files -------------------------------------------------------------------------------------------
    "FILE_EXCLUDED": Rule("The file is excluded", "note", "note",
        "It belongs to an editor, a tool or a version control system, not to the skill.",
        "Nothing needs to be done."),
    "FILE_PRIVATE": Rule("The file is excluded because such files hold secrets", "warning", "note",
        "Every file in the folder would be published.",
        "Keep it outside of the folder; ship an example under another name."),
    "FILE_SPECIAL": Rule("Neither a file nor a folder", "error", "error",
        "A device, socket or pipe has no content to publish.",
        "Remove it."),
    "FILE_UNREADABLE": Rule("The file cannot be read", "error", "error",
        "Its permissions, or the disk, do not let it be read.",
        "Make it readable, or remove it."),
    "LINK_COPIED": Rule("The symbolic link is published as a copy", "note", None,
        "Links do not survive every archive and file system, so its target is copied to its place.",
        "Nothing needs to be done."),
    "LINK_OUTSIDE": Rule("The symbolic link leads out of the folder, or nowhere", "error", "error",
        "Following it would publish, or read, what is not part of the skill.",
        "Put a copy of the target into the folder."),
    "LINK_CIRCLE": Rule("The symbolic link leads back to a folder around it", "error", "error",
        "Following it would never end.",
        "Remove the link."),
    "PATH_ODD": Rule("The path cannot be listed for old clients", "warning", None,
        "The index of 0.1.0 lists printable ASCII without \\ ? # [ ]; clients of it do not get the skill.",
        "Rename the file."),
    "FILES_MANY": Rule("The skill has many files", "warning", None,
        "The most used installer unpacks at most 1,000.",
        "Leave out what the skill does not need."),
    "FILES_LARGE": Rule("The skill is large", "warning", None,
        "The most used installer unpacks at most 50 MiB.",
        "Leave out what the skill does not need, or have it fetched when it is needed."),
    "FOLDER_EMPTY": Rule("The folder is empty", "note", "note",
        "A skill is its files; an installation does not contain the folder.",
        "Put a file into it, or remove it."),
    "SKILL_WITHIN_SKILL": Rule("A SKILL.md is inside another skill", "warning", "note",
        "It is published as a file of the outer skill and cannot be found or installed by itself.",
        "Move its folder beside the other skill, or give the file another name."),
    "FOLDER_WITHOUT_SKILL": Rule("A folder beside skills has no SKILL.md", "note", None,
        "Without a SKILL.md, here or below, it is skipped.",
        "Add a SKILL.md if it is to be a skill."),
    # --- links -------------------------------------------------------------------------------------------
    "LINK_BROKEN": Rule("A relative link leads to no file", "warning", None,
        "An agent that follows the link finds nothing and guesses.",
        "Correct the path; it is relative to the file that holds the link."),
    "LINK_ABSOLUTE": Rule("A link leads to a path of one machine", "warning", None,
        "Other machines have no file at that path.",
        "Link a file of the folder by its relative path."),
    "REFERENCE_DEPTH": Rule("A reference leads to further references", "warning", None,
        "Agents often read only the beginning of what a referenced file links to; keep references one level deep.",
        "Link the file from SKILL.md itself."),
    # --- what is hidden or dangerous ---------------------------------------------------------------------
    "HIDDEN_CHARACTERS": Rule("Text holds characters that people cannot see", "error", "warning",
        "Models and terminals obey what a reviewer does not see.",
        "Remove the characters."),
    "HIDDEN_IN_FILE": Rule("A script or data file holds characters that people cannot see", "warning", "warning",
        "A reviewer does not see the whole file; control characters also confuse terminals.",
        "Remove the characters, or write them as escapes of the language."),
    "SECRET": Rule("This looks like a secret", "warning", "warning",
        "Everything in the folder is published, and a published secret must be replaced.",
        "Replace the secret where it was issued, and take it from the environment at run time."),
    "PIPE_TO_SHELL": Rule("Something from the network is run unseen", "warning", "warning",
        "The owner of that address, today or later, can run anything on the user's machine.",
        "Download to a file, check its digest, then run it; or ship the file in the folder."),
    "AGENT_OVERRIDE": Rule("Text turns an agent against its user", "warning", "warning",
        "Skills attack by instructions to ignore others, or to hide something.",
        "Remove the sentence."),
    "COMMENT_INSTRUCTION": Rule("A comment speaks to an agent", "warning", "warning",
        "Agents read comments; rendered text does not show them.",
        "Write it into the text, or remove it."),
    "CREDENTIAL_FILE": Rule("Text names a file of credentials", "warning", "warning",
        "An agent that reads the file can send it anywhere.",
        "Name secrets under [permissions] in skill.toml."),
    "DESTRUCTIVE_COMMAND": Rule("A command destroys a user's files", "warning", "warning",
        "An agent may run it without asking.",
        "Name a folder below the working folder."),
    "FILE_UNSEARCHED": Rule("The middle of a large file is not searched for dangers", "note", "warning",
        "Padding can hide what an agent obeys.",
        "Read the file, or divide it into files of at most 2 MiB."),
    "NETWORK_UNDECLARED": Rule("A script uses the network without declaring it", "warning", "warning",
        "Users decide by a skill's declarations; runtimes without a grant block the call.",
        "Name the hosts in skill.toml under [permissions] network, or declare it in compatibility."),
    "SCRIPT_NOT_EXECUTABLE": Rule("The script has a first line '#!' and no executable bit", "warning", None,
        "Running it by its path fails.",
        "chmod +x the file."),
    "SCRIPT_LINE_ENDS": Rule("The script has a first line '#!' that ends in CR LF", "warning", None,
        "The system looks for an interpreter whose name ends in a carriage return.",
        "Save the file with LF line ends."),
    # --- a built site, an index --------------------------------------------------------------------------
    "INDEX_SCHEMA": Rule("The index has the wrong $schema", "error", "warning",
        "Clients that do not know the address stop; clients that find none read the index as 0.1.0.",
        'Write "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json".'),
    "INDEX_ENTRY": Rule("An entry of the index lacks a field, or has a malformed one", "error", "warning",
        "Clients skip the entry.",
        "Write name, type, description, url and digest as the format asks for them."),
    "INDEX_TYPE": Rule("An entry of the index has an unknown type", "error", "warning",
        "Clients skip the entry.",
        'Write "skill-md" for a single SKILL.md and "archive" for a .tar.gz or .zip.'),
    "INDEX_DIGEST": Rule("A digest has the wrong form", "error", "warning",
        "Clients skip the entry: a digest is sha256: and 64 lower-case hexadecimal characters.",
        "Write the digest as sha256sum prints it, behind sha256:."),
    "INDEX_NAME_TWICE": Rule("The index lists a name twice", "error", "warning",
        "Two clients could install two different skills.",
        "Keep one of the two entries."),
    "URL_MUTABLE": Rule("A digest is given for an address whose content changes", "warning", "warning",
        "As soon as a branch or a latest release moves on, the digest no longer fits and every client refuses.",
        "Link a tag, a commit or a versioned file."),
    "ARTIFACT_ABSENT": Rule("The index names a file that the site does not have", "error", "warning",
        "Clients get 404.",
        "Build the site again."),
    "ARTIFACT_DIGEST": Rule("A file of the site does not have the digest that the index gives", "error", "error",
        "The file was changed after the index was written, or the server changes it; every client refuses.",
        "Build the site again, and serve the files as they are."),
}
# fmt: on


#: What is published as a default version, unless the publisher names another.
VERSION_RULES: Final = frozenset({"VERSION_MISSING", "VERSION_FORM"})


class Findings(list[Finding]):
    """A list of findings that knows the level at which the rules are applied."""

    def __init__(self, level: CheckLevel) -> None:
        super().__init__()
        self.level: CheckLevel = level
        self.secrets: set[str] = set()

    def add(self, code: str, message: str, place: SourceLocation, *, fix: str | None = None) -> None:
        """Add a finding of the rule ``code``, unless the rule does not apply at this level."""
        rule = RULES[code]
        level = rule.level_strict if self.level == "strict" else rule.level_lenient
        if level is not None:
            self.append(Finding(code, level, message, place, fix or rule.fix))

    def add_error(self, error: SkillwireError, place: SourceLocation | None = None) -> None:
        """Add an error that applies at every level; ``place`` is used when the error has none."""
        where = error.place or place or SourceLocation("")
        self.append(Finding(error.code, "error", error.message, where, error.fix or CODES[error.code].fix))

    def redact(self) -> None:
        """Remove :attr:`secrets` from every message, and excerpts of lines with a secret."""
        lines = {finding.place[:2] for finding in self if finding.code == "SECRET"}
        for index, finding in enumerate(self if self.secrets else ()):
            message = finding.message
            for secret in self.secrets:
                message = message.replace(secret, "*" * len(secret))
            place = finding.place
            if finding.code != "SECRET" and place[:2] in lines:
                place = place._replace(excerpt=None)
            self[index] = finding._replace(message=message, place=place)

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return any(finding.level == "error" for finding in self)
