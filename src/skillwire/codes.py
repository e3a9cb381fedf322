"""The table of error codes: what each means, its usual cause, what to do, whether to try again.

One row a code, in the order of the tree in :mod:`skillwire.errors`. ``docs/reference/codes.md`` is
generated from it, and a test fails when a code is raised that has no row, or has a row and is never raised.
"""

from __future__ import annotations

from typing import NamedTuple

#: Where the documentation describes every code, in the repository and on the rendered site.
DOCS_PAGE = "docs/reference/codes.md"


class CodeInfo(NamedTuple):
    """One row: what it means, why, what to do.

    ``retryable`` says whether trying again unchanged can help. ``exit_code`` is that of a command that ends with
    it; None for what is only ever a finding, or an answer of the server.
    """

    summary: str
    cause: str
    fix: str
    retryable: bool = False
    exit_code: int | None = 1


CODES: dict[str, CodeInfo] = {
    # --- the call ----------------------------------------------------------------------------------------
    "USAGE": CodeInfo(
        "The command was called in a way that makes no sense",
        "A command, an option or an argument is misspelt, missing, malformed, or excludes another.",
        "Read the command's --help.",
        exit_code=2,
    ),
    "REFERENCE": CodeInfo(
        "A skill reference cannot be read",
        "A reference is example.com/name, a URL, example.com/rpc#dotted.name, a path, or a bare name of a source.",
        "Write the reference in one of these forms; docs/reference/references.md has them all.",
        exit_code=2,
    ),
    # --- decoding: JSON ----------------------------------------------------------------------------------
    "JSON_SYNTAX": CodeInfo(
        "Not JSON",
        "The bytes do not follow the JSON grammar; NaN and Infinity are not JSON.",
        "Correct it at the place that is named; python -m json.tool FILE says what is wrong.",
    ),
    "JSON_DEPTH": CodeInfo(
        "JSON nests too deep", "Arrays or objects nest more than 64 levels deep.", "Flatten the document."
    ),
    "JSON_DUPLICATE_KEY": CodeInfo(
        "A JSON object has one key twice",
        "Two readers could take two different values for it.",
        "Keep one of the two.",
    ),
    "JSON_NUMBER": CodeInfo(
        "A JSON number is out of range",
        "It is longer or larger than any field needs.",
        "Write a number of at most 20 digits.",
    ),
    "JSON_UNICODE": CodeInfo(
        "JSON that is not UTF-8", "JSON between systems must be UTF-8, without lone surrogates.", "Save it as UTF-8."
    ),
    # --- decoding: any document --------------------------------------------------------------------------
    "LIMIT_SIZE": CodeInfo(
        "Larger than is read",
        "A bound stands for everything that a stranger can make large; docs/reference/limits.md lists them.",
        "Make the document smaller, or split it.",
    ),
    "LIMIT_ENTRIES": CodeInfo(
        "More entries than are read",
        "A bound stands for everything that a stranger can make large; docs/reference/limits.md lists them.",
        "Write fewer entries.",
    ),
    "ENCODING": CodeInfo("Not UTF-8", "Text between systems is UTF-8.", "Save the file as UTF-8."),
    # --- decoding: YAML and TOML -------------------------------------------------------------------------
    "YAML_SYNTAX": CodeInfo(
        "Not YAML, or more than one plain mapping",
        "The parser stopped at this place; often a value holds ': ' and needs quotes.",
        "Put the value into double quotes.",
    ),
    "YAML_ALIAS": CodeInfo(
        "YAML with an anchor or an alias",
        "Aliases make a few bytes stand for gigabytes, so none is followed.",
        "Write the value out, or put it into quotes.",
    ),
    "YAML_TAG": CodeInfo(
        "YAML with a tag", "A tag asks for a type to be made; every value here is text.", "Remove the tag."
    ),
    "YAML_DEPTH": CodeInfo(
        "YAML nests too deep", "Lists or maps nest more than 16 levels deep.", "Flatten the document."
    ),
    "YAML_DUPLICATE_KEY": CodeInfo(
        "A YAML mapping has one key twice",
        "Two readers could take two different values for it.",
        "Keep one of the two.",
    ),
    "TOML_SYNTAX": CodeInfo(
        "Not TOML",
        "The parser stopped at this place; often text has no quotes, or a quote is not closed.",
        "Correct the line; text stands in double quotes.",
    ),
    "TOML_DEPTH": CodeInfo(
        "TOML nests too deep", "Brackets or dotted keys nest more than 16 levels deep.", "Flatten the document."
    ),
    "TOML_NUMBER": CodeInfo(
        "A TOML number or date is out of range",
        "Numbers are finite and fit 64 bits; dates are in the calendar.",
        "Correct the value.",
    ),
    # --- the skill folder --------------------------------------------------------------------------------
    "FRONTMATTER": CodeInfo(
        "No frontmatter",
        "SKILL.md begins with a line '---', then fields in YAML, then a line that is exactly '---'.",
        "Begin the file with a frontmatter that has a name and a description.",
    ),
    "FIELD": CodeInfo(
        "A field has the wrong form",
        "The value is of another sort than the field takes, or outside the values it may have.",
        "Write the field as docs/reference/skill-folder.md describes it.",
    ),
    "ENTRYPOINT": CodeInfo(
        "The entry point is not a file of the skill",
        "What runs must be one Python file inside the folder; anything else would run something nobody reviewed.",
        "Name the file by its path in the folder, such as scripts/main.py.",
    ),
    "EXPORT": CodeInfo(
        "The export is not the name of a function",
        "The runtime calls one function of the entry point by this name.",
        "Write a plain name such as main.",
    ),
    "PERMISSION_NETWORK": CodeInfo(
        "A network permission is too wide or unclear",
        "A grant names https origins of one owner: https://api.example.com or https://*.example.com.",
        "Name the hosts that the skill really calls.",
    ),
    "PERMISSION_SECRET": CodeInfo(
        "A secret cannot be handed over under this name",
        "A secret is one environment variable in capitals, and none that programs take orders from.",
        "Give the secret a name of its own, such as EXAMPLE_API_KEY.",
    ),
    "SKILL_INVALID": CodeInfo(
        "The folder is not a skill that may be used",
        "At least one finding is an error; the first is named.",
        "Run skillwire check on the folder to see every finding.",
    ),
    # --- decoding: Agent Skills Discovery ----------------------------------------------------------------
    "INDEX_SHAPE": CodeInfo(
        "Not a skill index",
        "The document is JSON, but has no list named skills, or its $schema is not a string.",
        "Check the address; an index is usually at /.well-known/agent-skills/index.json.",
    ),
    "INDEX_SCHEMA_UNKNOWN": CodeInfo(
        "The index follows a schema that is not known here",
        "Its $schema names another version of the format, so its entries may mean something else.",
        "Update skillwire; as a publisher, use the $schema of version 0.2.0.",
    ),
    "INDEX_ENTRIES": CodeInfo(
        "The index has too many entries", "It lists more skills than one index may.", "Split it into scoped indexes."
    ),
    "NAME_DUPLICATE": CodeInfo(
        "Two skills have one name", "Two readers could choose two different skills.", "Rename one of the two."
    ),
    "ENTRY_SHAPE": CodeInfo(
        "An index entry is not an object", "Each entry must be a JSON object.", "Mend or remove the entry."
    ),
    "NAME_FORM": CodeInfo(
        "Not a skill name",
        "A name is 1-64 of a-z, 0-9 and hyphens, with no hyphen first, last or doubled, and no device name.",
        "Rename the skill.",
    ),
    "DESCRIPTION_FORM": CodeInfo(
        "A description is missing or malformed",
        "A description is a text of 1 to 1,024 characters.",
        "Say in a sentence or two what the skill does and when to use it.",
    ),
    "ARTIFACT_TYPE_UNKNOWN": CodeInfo(
        "The type of an artifact is not known",
        "Version 0.2.0 knows skill-md and archive.",
        "Use one of the two; as a consumer, update skillwire.",
    ),
    "DIGEST_FORM": CodeInfo(
        "Not a digest",
        "A digest is sha256: followed by 64 lower-case hexadecimal characters.",
        "Write the SHA-256 of the artifact's bytes in this form.",
    ),
    "FILES_FORM": CodeInfo(
        "A list of files is malformed",
        "files must be a list of relative paths, with SKILL.md first and no path twice.",
        "Mend the list; skillwire build writes a right one.",
    ),
    "HIDDEN_TEXT": CodeInfo(
        "Text holds characters that people cannot see",
        "Hidden characters can carry instructions that a reviewer does not notice.",
        "Remove them. They are shown as escapes here and never handed on.",
        exit_code=None,
    ),
    "UNVERIFIED": CodeInfo(
        "The origin publishes no digests",
        "Its index is of version 0.1.0, so what is downloaded cannot be checked against a promise.",
        "Ask the publisher for a 0.2.0 index (skillwire build writes both).",
        exit_code=None,
    ),
    # --- decoding: Skill Sharing -------------------------------------------------------------------------
    "VALIDATION_ERROR": CodeInfo(
        "The document does not fit the schema of Skill Sharing",
        "A field is missing, or its value is of another type or form.",
        "Mend what is named; each violation has its JSON Pointer. skillwire validate lists them all.",
    ),
    "VERSION_INCOMPATIBLE": CodeInfo(
        "The document wants a newer major version of the protocol",
        "Its protocol.version has a greater MAJOR than the one that is spoken here.",
        "Update skillwire, or ask the provider for a descriptor of the supported version. The skill is not invoked.",
    ),
    "DESCRIPTOR": CodeInfo(
        "The descriptor asks for something unsafe or senseless",
        "A URL leads where it must not, a schema inside is dangerous, or a number is out of range.",
        "Mend what is named; docs/reference/protocols/skill-sharing.md lists the rules.",
    ),
    "CAPABILITY_TYPE": CodeInfo(
        "There is no such capability type",
        "Skills are of the types plugin, api, knowledge and task.",
        "Ask for one of them, or for none.",
        exit_code=2,
    ),
    "ID_DUPLICATE": CodeInfo(
        "One id stands twice in an index",
        "Nobody could say which of the two skills is meant, so the whole index is refused.",
        "Ask the provider to give each skill an id of its own.",
    ),
    "ID_DIFFERS": CodeInfo(
        "The descriptor is of another skill than the index says",
        "The id in the index and the id in the descriptor are not the same.",
        "Ask the provider; the index may be out of date.",
    ),
    "INDEX_DIFFERS": CodeInfo(
        "The descriptor says something else than the index",
        "The index names another version, capability type or access; one of the two is out of date.",
        "Tell the provider. What the descriptor says is used.",
        exit_code=None,
    ),
    "FILTER_IGNORED": CodeInfo(
        "The server sent skills of another type than was asked for",
        "It does not know the filter ?type=, or applies it wrongly.",
        "They are left out. Tell the provider: a filtered index must hold matching entries only.",
        exit_code=None,
    ),
    "NO_DIGEST": CodeInfo(
        "The skill cannot be fetched, since nothing gives a digest of it",
        "Skill Sharing alone, or an endpoint of the Skills Protocol, lists it, which give no digests of files.",
        "Call it, or ask the provider to publish it by Agent Skills Discovery, too.",
        exit_code=4,
    ),
    # --- paths of files ----------------------------------------------------------------------------------
    "PATH_TRAVERSAL": CodeInfo(
        "A path leads out of the skill's folder",
        "It holds '..', or characters that another reader turns into '..'.",
        "Publish the file under its plain path. If the archive is not yours, do not trust it.",
        exit_code=4,
    ),
    "PATH_ABSOLUTE": CodeInfo(
        "A path is absolute",
        "Paths of a skill's files are relative to its folder.",
        "Publish the file under its plain path. If the archive is not yours, do not trust it.",
        exit_code=4,
    ),
    "PATH_WINDOWS": CodeInfo(
        "A path means something else on Windows",
        "It holds a backslash, a colon, a device's name, an 8.3 short name, or a name that ends in a dot or space.",
        "Rename the file.",
        exit_code=4,
    ),
    "PATH_INVALID": CodeInfo(
        "A path cannot be a file's name",
        "It is empty, not UTF-8, holds characters that cannot be seen, or an empty component.",
        "Rename the file.",
        exit_code=4,
    ),
    "PATH_TOO_LONG": CodeInfo(
        "A path is too long",
        "A path has at most 512 bytes and each name in it at most 255.",
        "Shorten the names.",
        exit_code=4,
    ),
    "PATH_TOO_DEEP": CodeInfo(
        "A path nests too deep", "A path has at most 32 levels.", "Move the file up, nearer to SKILL.md.", exit_code=4
    ),
    "PATH_FORBIDDEN": CodeInfo(
        "A path leads into metadata of version control",
        "A tool that later runs in the folder would run the hooks it finds there.",
        "Leave .git, .hg, .svn and .bzr out of the skill.",
        exit_code=4,
    ),
    "PATH_COLLISION": CodeInfo(
        "Two paths are one file on some system",
        "They are equal, differ only in case or in how letters are composed, or one needs the other to be a folder.",
        "Rename one of the two.",
        exit_code=4,
    ),
    # --- archives --------------------------------------------------------------------------------------
    "ARCHIVE_MALFORMED": CodeInfo(
        "The archive is damaged, or its parts contradict each other",
        "It was cut off, or made so that two readers see two different skills.",
        "Fetch it again; if it stays so, ask the publisher to pack the skill anew.",
    ),
    "ARCHIVE_FORMAT_MISMATCH": CodeInfo(
        "The archive is of another format than was stated",
        "The server's Content-Type or the file's extension says one format, the bytes are another.",
        "Tell the publisher; application/gzip is for .tar.gz and application/zip for .zip.",
        exit_code=4,
    ),
    "ARCHIVE_TRAILING_DATA": CodeInfo(
        "There is more after the archive's end",
        "Some readers would stop at the end and others go on, and so see another skill.",
        "Pack the skill anew, as one archive.",
        exit_code=4,
    ),
    "ARCHIVE_UNSUPPORTED_METHOD": CodeInfo(
        "The archive is compressed in a way that is not read",
        "A zip of a skill stores its files or deflates them.",
        "Pack the skill anew, with deflate.",
    ),
    "ARCHIVE_ENCRYPTED": CodeInfo(
        "The archive is encrypted", "There is nobody to ask for a password.", "Pack the skill without a password."
    ),
    "ARCHIVE_ENTRY_TYPE": CodeInfo(
        "The archive holds something that is neither file, folder nor link",
        "A device, a pipe, a sparse file or an unknown type has no place in a skill.",
        "Pack plain files only. If the archive is not yours, do not trust it.",
        exit_code=4,
    ),
    "ARCHIVE_SIZE": CodeInfo(
        "The archive is too large",
        "An archive has at most 32 MiB.",
        "Leave out what the skill does not need.",
        exit_code=4,
    ),
    "ARCHIVE_FILE_SIZE": CodeInfo(
        "A file in the archive is too large",
        "One file has at most 32 MiB.",
        "Leave the file out, or split it.",
        exit_code=4,
    ),
    "ARCHIVE_TOTAL_SIZE": CodeInfo(
        "The archive unpacks to too much",
        "All files together, links written as copies, have at most 64 MiB.",
        "Leave out what the skill does not need.",
        exit_code=4,
    ),
    "ARCHIVE_RATIO": CodeInfo(
        "The archive unpacks to implausibly much",
        "More than 200 times its size is the mark of a decompression bomb.",
        "Do not trust it. A large file of one repeated byte does not belong in a skill.",
        exit_code=4,
    ),
    "ARCHIVE_HEADER_SIZE": CodeInfo(
        "A header in the archive is too large",
        "Names and comments need less than 64 KiB.",
        "Pack the skill anew with common options.",
        exit_code=4,
    ),
    "ARCHIVE_ENTRIES": CodeInfo(
        "The archive holds too many files",
        "An archive has at most 2,000 entries, links to folders counted with all that they lead to.",
        "Leave out what the skill does not need.",
        exit_code=4,
    ),
    "LINK_ESCAPE": CodeInfo(
        "A link leads out of the skill's folder",
        "Its target is absolute, or climbs above the folder.",
        "Replace the link by a copy. If the archive is not yours, do not trust it.",
        exit_code=4,
    ),
    "LINK_DANGLING": CodeInfo(
        "A link leads to nothing",
        "Its target is not in the archive.",
        "Add the target, or remove the link.",
        exit_code=4,
    ),
    "LINK_LOOP": CodeInfo(
        "A link leads to itself, or to a folder that it stands in",
        "Following it would never end.",
        "Replace the link by a copy of what is needed.",
        exit_code=4,
    ),
    "LINK_THROUGH": CodeInfo(
        "A path goes through a link",
        "Systems differ on where such a file is written.",
        "Put the file where the link leads to.",
        exit_code=4,
    ),
    "NO_SKILL_MD": CodeInfo(
        "There is no SKILL.md at the root",
        "The files of an archive are the folder's content, without a folder around them.",
        "Pack the content of the skill's folder, not the folder.",
        exit_code=1,
    ),
    "DESTINATION_EXISTS": CodeInfo(
        "Something is already where the files would go",
        "Nothing is overwritten unless that is asked for.",
        "Move it away, or choose another place.",
        exit_code=6,
    ),
    # --- addresses ---------------------------------------------------------------------------------------
    "URL": CodeInfo(
        "Not a URL that every reader reads alike",
        "It is not absolute http or https, or holds something that two programs could read in two ways.",
        "Write it like https://example.com/path, percent-encoding what is unusual.",
    ),
    "ALLOW_ENTRY": CodeInfo(
        "An entry of the allow list cannot be read",
        "An entry is a network (10.0.0.0/8), an address, a host, *.host, or an origin (https://host:8443).",
        "Write the entry in one of these forms.",
        exit_code=2,
    ),
    "ADDRESS_REFUSED": CodeInfo(
        "The address is not on the public internet and was not named by you",
        "A stranger's text, redirect or DNS answer leads into this machine or its network.",
        "If you trust it, name the host yourself, or list it in the setting allow.",
        exit_code=4,
    ),
    "PLAIN_HTTP_REFUSED": CodeInfo(
        "Plain http is not used on the public internet",
        "Anyone on the way can read and change what http carries.",
        "Use https. Plain http works with local hosts that you name.",
        exit_code=4,
    ),
    "PORT_REFUSED": CodeInfo(
        "The URL leads to an unusual port that was not named by you",
        "Other ports than a scheme's own often belong to services that were never meant to be reached.",
        "If you trust it, name the origin with its port yourself, or list it in the setting allow.",
        exit_code=4,
    ),
    # --- the network -------------------------------------------------------------------------------------
    "HEADER": CodeInfo(
        "A header cannot be sent",
        "Its name or value holds a character that HTTP cannot carry, often a line break behind a token.",
        "Copy the token again, without a line break at its end.",
        exit_code=2,
    ),
    "REDIRECT_REFUSED": CodeInfo(
        "A redirect leads where we do not follow",
        "It goes from https to http, carries credentials to another origin, or is no URL.",
        "Use the address that it leads to, if you trust that one.",
        exit_code=4,
    ),
    "REDIRECT_LIMIT": CodeInfo(
        "Too many redirects",
        "The redirects go in a circle or in a long chain.",
        "Check the address in a browser.",
        exit_code=5,
    ),
    "REDIRECT_BROKEN": CodeInfo(
        "A redirect that cannot be followed",
        "It has no Location, or it would turn a POST into a GET.",
        "As a publisher, send a Location, and 307 or 308 where the method must stay.",
        exit_code=5,
    ),
    "ANSWER_UNASKED": CodeInfo(
        "The server answers a question that was not asked",
        "304 without a condition or 206 without a range; often a broken cache in between.",
        "Tell the publisher to check the cache in front of the server.",
        exit_code=5,
    ),
    "CONTENT_TYPE": CodeInfo(
        "The answer is of another kind than expected",
        "The address leads to something else, or the server labels it wrongly.",
        "Check the address; as a publisher, send the right Content-Type.",
        exit_code=5,
    ),
    "CONTENT_ENCODING": CodeInfo(
        "The answer is compressed in a way that cannot be read",
        "The encoding was not asked for, is used twice, or the compressed data is damaged.",
        "As a publisher, send it uncompressed or with one of the encodings that were asked for.",
        exit_code=5,
    ),
    "BODY_TOO_LARGE": CodeInfo(
        "The answer is larger than it may be",
        "It is not what was asked for, or it was made to exhaust memory.",
        "Check the address; as a publisher, split what is published.",
        exit_code=5,
    ),
    "HTTP_SYNTAX": CodeInfo(
        "The answer breaks the rules of HTTP",
        "The server, or something in between, is broken, or tries to make two readers see two answers.",
        "Check that a web server answers at this address and port.",
        exit_code=5,
    ),
    "HOST_NOT_FOUND": CodeInfo(
        "The host has no address",
        "The name is misspelt, or DNS cannot be reached.",
        "Check the name and the network connection.",
        retryable=True,
        exit_code=5,
    ),
    "CONNECT_FAILED": CodeInfo(
        "No connection to the host",
        "Nothing listens there, or a firewall is in between.",
        "Check that the server runs, and the port.",
        retryable=True,
        exit_code=5,
    ),
    "CONNECTION_LOST": CodeInfo(
        "The connection ended before the answer did",
        "The server stopped, or something in between cut the connection.",
        "Try again.",
        retryable=True,
        exit_code=5,
    ),
    "TIMEOUT": CodeInfo(
        "The server did not finish in time",
        "It is slow or hangs, or the network is.",
        "Try again later.",
        retryable=True,
        exit_code=5,
    ),
    "TLS_FAILED": CodeInfo(
        "No secure connection to the host",
        "The certificate is not trusted, is expired or names another host, or TLS is older than 1.2.",
        "Check the host; for a private certificate authority, set SSL_CERT_FILE to its certificate.",
        exit_code=5,
    ),
    # --- resolving and installing ------------------------------------------------------------------------
    "LOCK_FORM": CodeInfo(
        "skills.lock cannot be read",
        "The file was edited or merged badly, or is of a newer version.",
        "Restore it from version control, or remove it and add the skills again.",
    ),
    "STATE_FORM": CodeInfo(
        "A file that skillwire keeps for itself is damaged",
        "It was edited, or its writing was cut off by something other than skillwire.",
        "Remove the file that is named; what it remembered is then asked and learnt again.",
    ),
    "LOCK_MISSING": CodeInfo(
        "There is no skills.lock to install from",
        "--frozen installs exactly what the lock says, and there is none.",
        "Run it where skills.lock is, or install with add first.",
        exit_code=3,
    ),
    "LOCK_MISMATCH": CodeInfo(
        "What was asked for is not what the lock says",
        "--frozen installs only what skills.lock holds, byte for byte.",
        "Install without --frozen to change the lock.",
        exit_code=4,
    ),
    "SETTING_FORM": CodeInfo(
        "A setting is unknown or malformed",
        "The settings file or the environment holds a value that cannot be used.",
        "Mend the value at the place that is named; docs/reference/settings.md says what each setting takes.",
        exit_code=2,
    ),
    "NO_SOURCES": CodeInfo(
        "No sources are configured",
        "A bare name is looked up in the configured sources, and there are none.",
        'Write example.com/name, or find --from example.com. To keep it: sources = ["example.com"] in skillwire.toml.',
        exit_code=2,
    ),
    "SKILL_NOT_FOUND": CodeInfo(
        "The skill is not there",
        "None of the places that were looked at publishes or holds it.",
        "Check the name with skillwire find --refresh; skillwire which REF --explain shows where it was looked for.",
        exit_code=3,
    ),
    "FILE_NOT_FOUND": CodeInfo(
        "The skill has no such file",
        "The path is not among the files of the artifact; paths are relative to the skill's folder.",
        "List the files with skillwire show REF --files.",
        exit_code=3,
    ),
    "INDEX_NOT_FOUND": CodeInfo(
        "No skill index is published there",
        "Neither /.well-known/agent-skills/index.json nor the older path answered with an index.",
        "Check the address; a publisher writes an index with skillwire build.",
        exit_code=3,
    ),
    "HTTP_STATUS": CodeInfo(
        "The server answered with an error",
        "The origin, or something on the way to it, could not or would not give the document.",
        "Try again later; if it stays so, tell the publisher.",
        retryable=True,
        exit_code=5,
    ),
    "NOT_INSTALLED": CodeInfo(
        "The skill is not installed here",
        "skills.lock does not name it.",
        "See what is installed with skillwire list.",
        exit_code=3,
    ),
    "DOWNGRADE": CodeInfo(
        "The origin has gone back to an index without digests",
        "It has published digests before; their absence may be an attack.",
        "Ask the publisher. To accept it, remove the origin from origins.json in the state directory.",
        exit_code=4,
    ),
    "DIGEST_MISMATCH": CodeInfo(
        "What was downloaded is not what was promised",
        "The artifact changed, was damaged on its way, or was tampered with.",
        "Nothing was installed. Try again with --refresh: it may have just changed. If it stays, tell the publisher.",
        exit_code=4,
    ),
    "CODE_INSTALLED": CodeInfo(
        "An installed skill brings code that would run",
        "Its skill.toml makes it an action: an agent or a server that calls it runs its entry point.",
        "Read the code before you let anything call it. Installing runs nothing.",
        exit_code=None,
    ),
    "NAME_MISMATCH": CodeInfo(
        "A skill names itself otherwise than the index does",
        "The name in its SKILL.md and the name in the index differ; the index decides where it is installed.",
        "Tell the publisher, who should make the two one.",
        exit_code=None,
    ),
    "ORIGIN_REFUSED": CodeInfo(
        "Installing from this origin is not allowed",
        "The policy names the origins to install from, and this is none of them.",
        "Add the origin to trusted_origins in the settings, if you trust it.",
        exit_code=4,
    ),
    "ORIGIN_UNKNOWN": CodeInfo(
        "Nobody has agreed to install from this origin yet",
        "A skill is instructions for an agent, so a new origin needs your consent, and it was not given.",
        "Look at the skill with show, then give --yes or add the origin to trusted_origins in the settings.",
        exit_code=4,
    ),
    "ORIGIN_NOT_ACCEPTED": CodeInfo(
        "Nobody has agreed to install from this origin",
        "A consent can be taken back only where one was given.",
        "See what was agreed to with skillwire origins.",
        exit_code=3,
    ),
    "FILE_EXISTS": CodeInfo(
        "Something is there already",
        "A new skill gets a folder of its own, and nothing is overwritten.",
        "Choose another name or folder, or move what is there away.",
        exit_code=6,
    ),
    "SKILL_CONFLICT": CodeInfo(
        "Something else is where the skill would go",
        "A folder of that name was not installed from there, or its files were changed since.",
        "Move it away, or replace it with --overwrite.",
        exit_code=6,
    ),
    "VERIFY_FAILED": CodeInfo(
        "Installed files are not what the lock says",
        "They were edited, removed or added to after installation.",
        "Put them back with skillwire add --frozen --overwrite NAME, or keep a copy elsewhere and do the same.",
        exit_code=4,
    ),
    "OFFLINE": CodeInfo(
        "This is not in the cache, and the network is not to be used",
        "--offline uses only what an earlier command has fetched.",
        "Run it once without --offline.",
        exit_code=5,
    ),
    "FOLDER_BUSY": CodeInfo(
        "Another skillwire is changing these skills",
        "Changes are made one at a time.",
        "Wait for it to end and try again.",
        retryable=True,
        exit_code=6,
    ),
    "FOLDER_OUTSIDE": CodeInfo(
        "A skills folder leads out of the project",
        "One of its parents is a symbolic link to a place outside, which a hostile project could use.",
        "Remove the link, or install with --global.",
        exit_code=4,
    ),
    "STORAGE": CodeInfo(
        "The disk refused",
        "A file could not be read or written.",
        "Check permissions and free space; skillwire doctor looks at the folders.",
        retryable=True,
        exit_code=7,
    ),
    "SKILLS_KEPT": CodeInfo(
        "What an interrupted change had put aside is kept",
        "A command was killed, and the lock has changed since or the change was made with another state directory, so "
        "nobody can tell what should stand there.",
        "Move what you want to keep out of the folder that is named, then remove it.",
        exit_code=7,
    ),
    "ACCESS_DENIED": CodeInfo(
        "The origin wants a credential",
        "It answered 401 or 403.",
        "Give one with --token, SKILLWIRE_TOKENS or ~/.netrc; skillwire config show says which origins have one.",
        exit_code=5,
    ),
    "AUTH_REQUIRED": CodeInfo(
        "The provider wants to know who asks",
        "No valid credential was sent.",
        "Run skillwire login with the provider's address.",
        exit_code=5,
    ),
    "PERMISSION_DENIED": CodeInfo(
        "The credential does not suffice",
        "It is valid, but the skill was not opened to it, or it lacks a scope.",
        "Ask the provider for a grant; the details name the scopes that are wanted.",
        exit_code=5,
    ),
    "INVOCATION_TIMEOUT": CodeInfo(
        "The execution took too long",
        "It did not end within its time limit.",
        "Try again with a longer limit, or ask the provider.",
        retryable=True,
        exit_code=5,
    ),
    "ENDPOINT_UNREACHABLE": CodeInfo(
        "The provider's endpoint could not be reached",
        "The connection failed, or a server in between said so.",
        "Try again later.",
        retryable=True,
        exit_code=5,
    ),
    # --- calling skills ----------------------------------------------------------------------------------
    "ENDPOINT_FOREIGN": CodeInfo(
        "A skill is called at another origin, in your name",
        "The descriptor names an endpoint at an origin that you have not named, and that you have a credential for.",
        "Check the endpoint with skillwire show REF --descriptor; agree when you are asked, or with --yes.",
        exit_code=4,
    ),
    "CIRCUIT_OPEN": CodeInfo(
        "The endpoint has failed several times in a row and is left alone",
        "It did not answer, or said that it is overloaded; more requests would not help it.",
        "Try again in half a minute.",
        retryable=True,
        exit_code=5,
    ),
    "CALL_TAKEN_UP": CodeInfo(
        "An earlier call is taken up",
        "The same call was sent a moment ago, and nobody knows whether it arrived. It goes out again under its key, so "
        "that it is executed once.",
        "Nothing; to have it executed once more, give --idempotency-key with a text of your own.",
        exit_code=None,
    ),
    "OUTPUT_DIFFERS": CodeInfo(
        "The output is not what the descriptor promises",
        "The skill gave something that its own output schema does not allow.",
        "Check it before you use it; tell the provider.",
        exit_code=None,
    ),
    "EXECUTION_FAILED": CodeInfo(
        "The execution failed",
        "The skill, or what it needs, did not work; its message and details say what is known.",
        "Correct the inputs if that is the reason; else ask the provider.",
        exit_code=8,
    ),
    "EXECUTION_TIMED_OUT": CodeInfo(
        "The execution took longer than it may",
        "It met the least of the limits of the skill, of the server, and of --timeout.",
        "Call it again with a longer --timeout, or ask the provider.",
        retryable=True,
        exit_code=8,
    ),
    "EXECUTION_CANCELLED": CodeInfo(
        "The execution was cancelled", "Its caller, or an operator, took it back.", "Call it again.", exit_code=8
    ),
    "EXECUTION_PENDING": CodeInfo(
        "The execution is not done yet",
        "It takes longer than this command was to wait.",
        "Run skillwire result with its id to go on waiting, skillwire cancel to end it.",
        retryable=True,
        exit_code=9,
    ),
    "EXECUTION_UNKNOWN": CodeInfo(
        "No call of this id is remembered here",
        "The id is mistyped, the call was made by another user or on another machine, or long ago.",
        "Give the URL of its status in place of the id.",
        exit_code=3,
    ),
    # --- logging in --------------------------------------------------------------------------------------
    "LOGIN_FORM": CodeInfo(
        "A login cannot be made so",
        "An option is missing for this kind of login, or excludes another; or nobody can be asked.",
        "See skillwire login --help.",
        exit_code=2,
    ),
    "LOGIN_NOT_AGREED": CodeInfo(
        "Nobody has agreed to log in at that host",
        "An origin may name any host as its authorization server; what is typed there is known there.",
        "Check the host; agree when you are asked, or with --yes.",
        exit_code=4,
    ),
    "LOGIN_STATE": CodeInfo(
        "The browser brought an answer to another question",
        "It belongs to an earlier login, or someone tries to slip their own login in.",
        "Run skillwire login again, and follow only the address that it shows.",
        exit_code=4,
    ),
    "LOGIN_DENIED": CodeInfo(
        "The login was denied",
        "You, or the authorization server, refused what was asked for.",
        "Run skillwire login again and agree; ask for less with --scope.",
        exit_code=5,
    ),
    "LOGIN_TIMEOUT": CodeInfo(
        "The login was not finished in time",
        "A login in the browser may take five minutes, a device code as long as the server says.",
        "Run skillwire login again.",
        retryable=True,
        exit_code=5,
    ),
    "LOGIN_REFUSED": CodeInfo(
        "The authorization server refused",
        "The client ID or its secret is wrong, it may not log in this way, or it may not have that scope.",
        "Check --client-id, --flow and --scope with whoever runs the authorization server.",
        exit_code=5,
    ),
    "LOGIN_ANSWER": CodeInfo(
        "The authorization server's answer cannot be used",
        "It lacks what the protocol asks for, or says something else than before.",
        "Tell whoever runs the authorization server.",
    ),
    "LOGIN_EXPIRED": CodeInfo(
        "The stored login has ended",
        "Its token has expired or was revoked, and cannot be renewed.",
        "Run skillwire login with the origin again, or skillwire logout to go on without.",
        exit_code=5,
    ),
    "LOGIN_MISSING": CodeInfo(
        "Nobody is logged in there",
        "There is no stored credential for this origin.",
        "skillwire login --list shows the logins.",
        exit_code=3,
    ),
    "CREDENTIALS_OPEN": CodeInfo(
        "The file of stored credentials is open to others",
        "Something has changed its permissions; it holds tokens.",
        "Take that away with chmod 600, and renew the credentials.",
        exit_code=7,
    ),
    "KEYRING": CodeInfo(
        "The system's keyring cannot be used",
        "The extra keyring is not installed, or there is no keyring, or it is locked.",
        "Unlock it, or set credential_store to file and log in again.",
        exit_code=7,
    ),
    # --- publishing --------------------------------------------------------------------------------------
    "FOLDER_MISSING": CodeInfo(
        "There is no such folder",
        "The path is mistyped, or leads to a file.",
        "Give a folder of skills, or a skill.",
        exit_code=2,
    ),
    "PUBLISHER_FORM": CodeInfo(
        "Not a publisher's name",
        "A publisher is 1-64 letters, digits, hyphens and dots, and begins and ends with a letter or digit.",
        "Give one like example-corp.",
        exit_code=2,
    ),
    "SKILLS_BROKEN": CodeInfo(
        "Some skills cannot be published",
        "They break rules that every publisher keeps, so that all clients can read them.",
        "Mend what is reported, or publish the others with --skip-broken.",
    ),
    "SITE_FOREIGN": CodeInfo(
        "Files that no build made are in the way",
        "The folder of the site holds other things, and a build replaces only what builds have made.",
        "Choose another folder, move the files away, or give --force to keep them beside the site.",
        exit_code=6,
    ),
    "SITE_OVERLAP": CodeInfo(
        "The site and the skills lie within each other",
        "A site inside a skill becomes part of it; skills inside a site are published with all that is beside them.",
        "Choose a folder for the site that holds no skill and lies in none.",
        exit_code=2,
    ),
    "SITE_MANIFEST": CodeInfo(
        "The manifest of the site cannot be trusted",
        "It was edited, damaged, or written by another version.",
        "Build into a new folder.",
        exit_code=4,
    ),
    "FUNCTION_FORM": CodeInfo(
        "A function cannot be described as a skill",
        "A parameter has no type hint, or one that JSON Schema cannot say; or the docstring says something else.",
        "Give each parameter a type that has a form in JSON, and the function a docstring that describes it.",
        exit_code=2,
    ),
    "FOLDER_UNSTEADY": CodeInfo(
        "The skill's folder changes while it is read",
        "Something goes on writing to it.",
        "Wait until that has ended, and try again.",
        retryable=True,
        exit_code=None,
    ),
    "WORKER_LOST": CodeInfo(
        "A process that loads skills has ended unexpectedly",
        "It ran out of memory or was killed.",
        "Try again; if it stays so, load fewer folders at once.",
        retryable=True,
        exit_code=7,
    ),
    "PORT_IN_USE": CodeInfo(
        "Another program listens on that port",
        "Often it is an earlier server that still runs.",
        "Stop it, or choose another port with --port (0 takes a free one).",
        exit_code=6,
    ),
    "HOST_UNUSABLE": CodeInfo(
        "The server cannot listen there",
        "The host is not an address of this machine, or the port needs more rights.",
        "Use 127.0.0.1, 0.0.0.0 or an address of this machine, and a port above 1023.",
        exit_code=2,
    ),
    # --- running skills ----------------------------------------------------------------------------------
    "SANDBOX_UNAVAILABLE": CodeInfo(
        "Skills cannot be run here",
        "A skill's code runs in a sandbox of bubblewrap alone, and that does not work on this machine.",
        "Install bubblewrap 0.8 or newer; skillwire doctor says what is in its way.",
        exit_code=4,
    ),
    "SECRETS_FILE": CodeInfo(
        "The file of the skills' secrets cannot be used",
        "It is missing, can be read or changed by others, or holds something else than names and texts.",
        "Give it to the user that runs the server alone (chmod 600), with lines like NAME=value, or as TOML.",
        exit_code=7,
    ),
    # --- JSON-RPC ----------------------------------------------------------------------------------------
    "RPC_REQUEST": CodeInfo(
        "Not a request of JSON-RPC 2.0",
        'A request is an object with "jsonrpc": "2.0", a method, params as an object, and an id; or a list of them.',
        "Write the request as docs/reference/protocols/skills-rpc.md shows it.",
    ),
    "RPC_METHOD": CodeInfo(
        "The endpoint has no such method",
        "The name is misspelt, or of a protocol or version that is not spoken there.",
        "Call one of the methods that docs/reference/protocols/skills-rpc.md lists.",
        exit_code=3,
    ),
    "RPC_PARAMS": CodeInfo(
        "The parameters do not fit the method",
        "One is missing, unknown, of another type or outside of its range, or they are given by position.",
        "Give the parameters by name, as docs/reference/protocols/skills-rpc.md lists them.",
    ),
    "RPC_ANSWER": CodeInfo(
        "Not an answer of JSON-RPC 2.0, or not to this call",
        "The address is that of something else, or a proxy on the way answers in its place.",
        "Check the address; the endpoint of a server is usually /rpc.",
    ),
    "RUN_NOT_FOUND": CodeInfo(
        "There is no such run",
        "The id is misspelt, the run is somebody else's, or it was so long ago that it was forgotten.",
        "Use the run_id that the call gave, with the same credentials.",
        exit_code=3,
    ),
    "RUN_PENDING": CodeInfo(
        "The run goes on",
        "It was begun over JSON-RPC or MCP, and the server waits for its end no longer; it stops, for example.",
        "Do not call it again, or it runs twice. GET /executions/ID of the server tells how far it is.",
        exit_code=9,
    ),
    # --- MCP ---------------------------------------------------------------------------------------------
    "MCP_MISSING": CodeInfo(
        "The SDK of the Model Context Protocol is not installed",
        "Few need it, and it brings much with it: it is an extra.",
        "Install it: uv tool install 'skillwire[mcp]', or pip install 'skillwire[mcp]'.",
        exit_code=2,
    ),
    "PAGE_REFUSED": CodeInfo(
        "A page of this origin may not have this done",
        "A page that the operator does not know wanted to call or cancel, to use blobs or to speak MCP, as attacks do.",
        "If the page is yours, list its origin in origins below [rpc] in the server's configuration.",
        exit_code=None,
    ),
    # --- neighbours --------------------------------------------------------------------------------------
    "MARKETPLACE_FORM": CodeInfo(
        "Not a marketplace of plugins",
        "A marketplace.json is an object with a name, an owner and a list of plugins.",
        "Name the folder that has .claude-plugin/marketplace.json or .claude-plugin/plugin.json, or the file.",
    ),
    "MARKETPLACE_NAME": CodeInfo(
        "The name cannot be that of a marketplace or plugin",
        "People type it behind an @: letters, digits, dots and hyphens; some names are kept for their owners.",
        "Choose another one with --name or --plugin.",
        exit_code=2,
    ),
    "PLUGIN_FORM": CodeInfo(
        "A plugin of a marketplace was passed over",
        "Its entry has no name, no source that can be read, or a path that leads out of the marketplace.",
        "Tell whoever publishes the marketplace.",
    ),
    "PLUGIN_ELSEWHERE": CodeInfo(
        "A plugin lies outside of its marketplace, and was not fetched",
        "Its source is a git repository, a package or a command; an import runs nothing and fetches no repositories.",
        "Fetch it yourself, and import the folder.",
        exit_code=None,
    ),
    "PLUGIN_WITHOUT_SKILLS": CodeInfo(
        "A plugin has no skills that could be taken",
        "It has commands, agents, hooks or servers alone; or over HTTP, where no folder can be listed, it names none.",
        "Clone the repository and import its folder, if it has skills after all.",
        exit_code=None,
    ),
    "FILES_UNLISTED": CodeInfo(
        "A skill was fetched without a list of its files",
        "Over HTTP only what SKILL.md links to can be found; a script that it names in passing is missing.",
        "Clone the repository and import its folder, to have every file.",
        exit_code=None,
    ),
    # --- searching ---------------------------------------------------------------------------------------
    "QUERY": CodeInfo(
        "The search cannot be read",
        "A parameter has the wrong form, or is beyond the bounds of docs/reference/limits.md.",
        "Write the parameters as docs/reference/http.md describes them.",
        exit_code=2,
    ),
    "CURSOR": CodeInfo(
        "The place to go on from is unknown",
        "A cursor goes on in the same search among the same skills; it is of another search, or they have changed.",
        "Search again without after, and go on with the next of that answer.",
        exit_code=2,
    ),
    # --- tokens ------------------------------------------------------------------------------------------
    "TOKEN_FORM": CodeInfo(
        "A token cannot be made so",
        "Its name, a skill, a scope or the time of its end is malformed.",
        "See skillwire token create --help.",
        exit_code=2,
    ),
    "TOKEN_NOT_FOUND": CodeInfo(
        "There is no such token",
        "The ID was mistyped, or belongs to another state directory.",
        "List them: skillwire token list.",
        exit_code=3,
    ),
    "DATABASE": CodeInfo(
        "The server's database cannot be used",
        "The file is damaged, of a newer version, not writable, or held by another process.",
        "Check the file that is named, its folder and the free space.",
        exit_code=7,
    ),
    "SERVER_KEY": CodeInfo(
        "The server's key cannot be used",
        "The file is readable by others, or holds something else.",
        "Restore it from a copy. A new key makes every token worthless: remove the file to have one made.",
        exit_code=7,
    ),
    # --- keys of the local network -----------------------------------------------------------------------
    "LAN_KEYS": CodeInfo(
        "The key of an agent cannot be used",
        "The file is readable by others, or holds no P-256 key, or a secret that is too short.",
        "Take the right to read it from others: chmod 600 FILE. For a new key: skillwire key new --replace.",
        exit_code=7,
    ),
    "LAN_NAME": CodeInfo(
        "The agent's name on the local network is taken",
        "Another process of this user offers skills under the same agentId, or somebody on the network does so with "
        "another key.",
        "Give each its own agentId in [discovery], or none: then the second process of a machine is NAME-2 by itself.",
        exit_code=6,
    ),
    "LAN_UNHEARD": CodeInfo(
        "An agent of the local network speaks otherwise than we do",
        "It is set to the other profile (open, signed), or signs with another group key, so neither hears the other.",
        "Set profile in [discovery], and groupKeyFile in [discovery.trust], alike at all agents of a network.",
        exit_code=7,
    ),
    "LAN_TRUST": CodeInfo(
        "What agents are held against cannot be used",
        "A file of roots, intermediates or revocations is missing or holds something else, or our certificate is for "
        "another agent.",
        "Name files in PEM or DER as skillwire ca init writes them: root.pem and center.pem.",
        exit_code=1,
    ),
    "LAN_REVOCATIONS": CodeInfo(
        "A list of revoked certificates is refused",
        "No trusted authority has signed it, it is damaged, too large, or of a time that is yet to come.",
        "Name the list of the authority that is trusted here; the last good one stays in force meanwhile.",
        exit_code=4,
    ),
    "CA_FOLDER": CodeInfo(
        "There is no certificate authority in the folder",
        "The folder was mistyped, or its certificate or key lies elsewhere.",
        "Make one: skillwire ca init FOLDER. A key that was put away has to be put back to sign with it, or named: "
        "--root-key FILE.",
        exit_code=3,
    ),
    "CA_EXISTS": CodeInfo(
        "There is an authority in the folder already",
        "With another one, everything that it has issued would be worthless.",
        "Use it as it is, or name another folder.",
        exit_code=6,
    ),
    "CA_IN_USE": CodeInfo(
        "The SkillCenter CA that issues is not taken back",
        "Without another one nobody could be certified, and nothing could be taken back any more.",
        "Make the next one first: skillwire ca renew FOLDER. What this one has issued ends when it is taken back.",
        exit_code=6,
    ),
    "KEY_EXISTS": CodeInfo(
        "There is a key already",
        "With another one in its place, its certificates would be worthless.",
        "To replace it all the same, say --replace; or have a certificate issued for it: skillwire key new.",
        exit_code=6,
    ),
    "CA_PASSPHRASE": CodeInfo(
        "The key of the authority does not open",
        "It is encrypted, and the passphrase in SKILLWIRE_CA_PASSPHRASE is missing or another.",
        "Set SKILLWIRE_CA_PASSPHRASE to the passphrase that the authority was made with.",
        exit_code=4,
    ),
    "CERTIFICATE_REQUEST": CodeInfo(
        "No certificate is issued for this",
        "The request is damaged, not signed by its own key, of another kind of key than P-256, or names what cannot be "
        "certified.",
        "Make one with skillwire key new, or name agents, skills and hosts in their plain forms.",
        exit_code=1,
    ),
    "CERTIFICATE_REFUSED": CodeInfo(
        "The certificate is not issued, or not renewed",
        "The one that asks has ended or was revoked, is of another authority, or asks for more than it has; or one of "
        "the same key was revoked.",
        "Have a new one issued: skillwire ca issue, and skillwire key install; for another key: skillwire key new "
        "--replace.",
        exit_code=4,
    ),
    "CERTIFICATE_NOT_FOUND": CodeInfo(
        "The authority has issued no such certificate",
        "The serial number or name was mistyped, or another authority has issued it.",
        "List them: skillwire ca list FOLDER.",
        exit_code=3,
    ),
    # --- grants ------------------------------------------------------------------------------------------
    "GRANT_NEEDLESS": CodeInfo(
        "Nothing of this skill is executed here",
        "It is instructions, a task for a person, or a function of the publisher's own program.",
        "Call it as it is; a grant is for skills with code, or with an API behind them.",
        exit_code=2,
    ),
    "GRANT_NOT_AGREED": CodeInfo(
        "Nobody has agreed that this skill runs here",
        "A folder's code runs only when a person said yes to exactly this; nobody could be asked, or somebody said no.",
        "Look at what it asks for with skillwire grant --dry-run, then agree when you are asked, or with --yes.",
        exit_code=4,
    ),
    "GRANT_NOT_FOUND": CodeInfo(
        "Nothing was granted by that name",
        "The name or digest was mistyped, or the grant belongs to another state directory.",
        "List them: skillwire grants.",
        exit_code=3,
    ),
    # --- tasks for people --------------------------------------------------------------------------------
    "TASK_NOT_FOUND": CodeInfo(
        "There is no such task",
        "The ID was mistyped, belongs to another state directory, or was cut short though the task has ended.",
        "List those that wait: skillwire inbox.",
        exit_code=3,
    ),
    "TASK_TAKEN": CodeInfo(
        "The task is not yours",
        "Somebody else has claimed it, or nobody has it.",
        "Let whoever has it hand it in or release it; claim what nobody has: skillwire inbox claim ID.",
        exit_code=6,
    ),
    "TASK_ENDED": CodeInfo(
        "The task has ended",
        "It was handed in or declined already, its caller took it back, or its time is over.",
        "There is nothing more to do for it; skillwire inbox lists what waits.",
        exit_code=6,
    ),
    # --- the local network -------------------------------------------------------------------------------
    "DATAGRAM": CodeInfo(
        "Not a datagram of Skill Discovery",
        "Something else was sent to the port, by mistake or to do harm; it is dropped and counted.",
        "Look which machine sends it, if there are many.",
    ),
    "DATAGRAM_FIELD": CodeInfo(
        "A value cannot be sent in a datagram",
        "Identifiers are letters, digits, dots, hyphens and underscores; an endpoint is host:port.",
        "Correct the value that is named.",
    ),
    "DATAGRAM_SIZE": CodeInfo(
        "A datagram would be too large",
        "A datagram has at most 1,200 bytes, so that it arrives in one piece.",
        "Name fewer capabilities or scenes, or shorter ones.",
    ),
    "DISC_001": CodeInfo(
        "Nobody on the network answered in time",
        "No agent is there, its answers were lost, or a firewall keeps datagrams of UDP port 54321 away.",
        "Try again, each time after a longer pause; skillwire lan shows whom this machine hears.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_002": CodeInfo(
        "No skills were found on the network",
        "Nobody here offers what was asked for, or what is offered is not trusted.",
        "Ask for fewer capabilities, or look in your sources, which have skills of elsewhere: skillwire find QUERY.",
        exit_code=3,
    ),
    "DISC_003": CodeInfo(
        "A skill could not be registered",
        "An agent refused the registration: our key is not certified for it, another key is, or our clock is wrong.",
        "Check the key, the certificate and the clock of this machine, and try again.",
        retryable=True,
        exit_code=4,
    ),
    "DISC_004": CodeInfo(
        "Nobody whom you trust vouches for a skill",
        "Its key has no certificate that leads to a configured root, or the certificate has expired or was revoked; or "
        "only others have told of it. As a note of a scene that was joined: its provider gives us no key.",
        "Check the certificate chain: [discovery.trust] roots. To use the skill all the same, say --unverified.",
        exit_code=4,
    ),
    "DISC_005": CodeInfo(
        "The network failed us, and a scene was joined without a key",
        "Its provider, or the port where that hands out keys, refused the connection, broke it off or did not answer "
        "in time. skillwire scene prints it as a note; a program finds it in no_key of what request_scene returns. "
        "Where there is no network at all, the code is LAN_UNAVAILABLE.",
        "Ask for the scene again in a moment. What is public there needs no key, and a key that you were given before "
        "is good until it ends.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_006": CodeInfo(
        "A skill on the network cannot be used now",
        "It is UNHEALTHY, OFFLINE or under maintenance, or its endpoint does not answer.",
        "Use another skill with the same capability: skillwire find CAPABILITY --lan.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_007": CodeInfo(
        "Nobody on the network provides the scene",
        "No skill that is registered here is in it, or none has all the capabilities that were asked for.",
        "List the scenes that are here: skillwire scene list. Or install a skill that takes part in it and serve it.",
        exit_code=3,
    ),
    "LAN_UNAVAILABLE": CodeInfo(
        "This machine has no local network to speak on",
        "No interface is up that takes multicast, or the one that is configured does not exist.",
        "Connect the machine, or name an interface that is up in [discovery.udp] interfaces.",
        retryable=True,
        exit_code=5,
    ),
    "LAN_CACHE": CodeInfo(
        "The cache of the local network cannot be read",
        "The file was cut short, or something else wrote it.",
        "Nothing: it counts as empty, and is made anew with what is found next.",
    ),
    "DISCOVERY_CONFIGURATION": CodeInfo(
        "The configuration of discovery cannot be used",
        "A table or key is unknown or malformed, or two figures contradict each other.",
        "Correct it at the place that is named; docs/reference/protocols/skill-discovery.md lists what can be set.",
    ),
    # --- who asks the server -----------------------------------------------------------------------------
    "SERVER_CONFIGURATION": CodeInfo(
        "The server's configuration cannot be used",
        "A table or key is unknown, missing or malformed.",
        "Correct it at the place that is named; docs/reference/server-configuration.md lists what can be set.",
        exit_code=2,
    ),
    "ISSUER_UNAVAILABLE": CodeInfo(
        "The authorization server does not answer as it should",
        "It is down or slow, refuses this server's credentials, or answers with something else.",
        "Try again in a moment. Whoever runs the server: check [oauth2] and whether its addresses can be reached.",
        retryable=True,
        exit_code=None,
    ),
    "TOO_MANY_REQUESTS": CodeInfo(
        "Requests come too often",
        "Each caller may ask so often a minute; the answer says how often and when again.",
        "Wait for the seconds that Retry-After says.",
        retryable=True,
        exit_code=None,
    ),
    "TOO_MANY_EXECUTIONS": CodeInfo(
        "Too many executions wait",
        "Each caller may have so many that wait or run, and so may all callers together.",
        "Wait for the seconds that Retry-After says. Whoever runs the server: let more run at once, see [executions].",
        retryable=True,
        exit_code=None,
    ),
    "BLOB_NOT_FOUND": CodeInfo(
        "The blob is not there",
        "It was never made by you, or it has expired: a blob is kept for a while after its last use.",
        "Make it again with create_blob.",
        exit_code=3,
    ),
    "BLOB_KIND": CodeInfo(
        "The kind of a blob is no media type",
        "A kind is a type and a subtype, such as text/csv or image/png.",
        "Write it as type/subtype; application/octet-stream fits everything.",
    ),
    "BLOB_ROOM": CodeInfo(
        "There is no room for a blob",
        "The blobs of one caller, and those of all, have a bound together, and so has what is sent at once.",
        "Send it later, when others have expired. Whoever runs the server: see blobs_per_owner in [rpc].",
        retryable=True,
        exit_code=6,
    ),
    "TOO_MANY_SIGNATURES": CodeInfo(
        "One key signs more requests than the server can remember",
        "Each signature counts once, so all of the last minutes are kept.",
        "Send fewer requests a minute, or share them between several keys.",
        retryable=True,
        exit_code=None,
    ),
    "WEBHOOK_SIGNATURE": CodeInfo(
        "A webhook is not from who it should be from",
        "It was signed with another secret, changed on its way, or is older than five minutes.",
        "Check the secret, that the body is taken byte for byte, and the clock; use nothing of such a request.",
        exit_code=4,
    ),
    # --- answers of the server ---------------------------------------------------------------------------
    "NOT_FOUND": CodeInfo(
        "Nothing is published at this path",
        "The URL is mistyped, or the skill or file was removed.",
        "See what is published in /.well-known/agent-skills/index.json.",
        exit_code=None,
    ),
    "METHOD_NOT_ALLOWED": CodeInfo(
        "The resource does not answer this method",
        "What is published can be read, not changed, over HTTP.",
        "Use a method of the Allow field.",
        exit_code=None,
    ),
    "MEDIA_TYPE": CodeInfo(
        "The body is of another media type than is read",
        "A skill is called with JSON.",
        "Send the body as JSON, with Content-Type: application/json.",
        exit_code=None,
    ),
    "URL_TOO_LONG": CodeInfo(
        "The URL is too long",
        "It is longer than anything that is published.",
        "Check how the URL is made.",
        exit_code=None,
    ),
    "RANGE_UNSATISFIABLE": CodeInfo(
        "The part asked for lies behind the end",
        "The file is shorter than the client thinks; it may have changed.",
        "Fetch the whole.",
        exit_code=None,
    ),
    "HEAD_TOO_LARGE": CodeInfo(
        "The head of the request is too large",
        "The request line and header fields are more than the server reads.",
        "Send fewer or smaller header fields, such as cookies.",
        exit_code=None,
    ),
    "REQUEST_TIMEOUT": CodeInfo(
        "The request took too long to arrive",
        "It was sent slowly, or not to its end.",
        "Send the request again.",
        retryable=True,
        exit_code=None,
    ),
    "NOT_READY": CodeInfo(
        "The server is still loading its skills",
        "It was started a moment ago.",
        "Try again in a second.",
        retryable=True,
        exit_code=None,
    ),
    "INTERNAL": CodeInfo(
        "Something failed that should not",
        "This is a mistake in skillwire, not in what you did.",
        "Run it again as skillwire --debug ..., or read the server's log, and report what it says.",
        retryable=True,
        exit_code=70,
    ),
}
