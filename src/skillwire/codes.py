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
        "The command line is invalid",
        "A command, option or argument is misspelt, missing, malformed, or conflicts with another.",
        "Read the command's --help.",
        exit_code=2,
    ),
    "REFERENCE": CodeInfo(
        "The skill reference is invalid",
        "A reference is example.com/name, a URL, example.com/rpc#dotted.name, a path, or a bare name from a source.",
        "Write the reference in one of these forms; docs/reference/references.md lists them all.",
        exit_code=2,
    ),
    # --- decoding: JSON ----------------------------------------------------------------------------------
    "JSON_SYNTAX": CodeInfo(
        "The document is not valid JSON",
        "The bytes do not follow the JSON grammar; NaN and Infinity are not JSON.",
        "Fix the JSON at the location shown; python -m json.tool FILE shows the error.",
    ),
    "JSON_DEPTH": CodeInfo(
        "The JSON nests too deeply", "Arrays or objects nest more than 64 levels deep.", "Flatten the document."
    ),
    "JSON_DUPLICATE_KEY": CodeInfo(
        "A JSON object has a duplicate key",
        "Two readers could use two different values for the key.",
        "Remove one of the two.",
    ),
    "JSON_NUMBER": CodeInfo(
        "A JSON number is out of range",
        "The number is longer or larger than any field needs.",
        "Write a number of at most 20 digits.",
    ),
    "JSON_UNICODE": CodeInfo(
        "The JSON is not UTF-8",
        "JSON exchanged between systems must be UTF-8, without lone surrogates.",
        "Save the document as UTF-8.",
    ),
    # --- decoding: any document --------------------------------------------------------------------------
    "LIMIT_SIZE": CodeInfo(
        "The document is too large",
        "Every input from an untrusted peer has a size limit; docs/reference/limits.md lists the limits.",
        "Make the document smaller, or split it.",
    ),
    "LIMIT_ENTRIES": CodeInfo(
        "The document has too many entries",
        "Every input from an untrusted peer has an entry limit; docs/reference/limits.md lists the limits.",
        "Write fewer entries.",
    ),
    "ENCODING": CodeInfo(
        "The text is not UTF-8", "Text exchanged between systems is UTF-8.", "Save the file as UTF-8."
    ),
    # --- decoding: YAML and TOML -------------------------------------------------------------------------
    "YAML_SYNTAX": CodeInfo(
        "The document is not valid YAML, or not a single plain mapping",
        "The parser stopped at this location; often a value contains ': ' and needs quotes.",
        "Put the value in double quotes.",
    ),
    "YAML_ALIAS": CodeInfo(
        "The YAML uses an anchor or an alias",
        "Aliases let a few bytes expand to gigabytes, so they are rejected.",
        "Write the value out, or put it in quotes.",
    ),
    "YAML_TAG": CodeInfo(
        "The YAML uses a tag", "A tag constructs a typed object; every value here is text.", "Remove the tag."
    ),
    "YAML_DEPTH": CodeInfo(
        "The YAML nests too deeply", "Lists or maps nest more than 16 levels deep.", "Flatten the document."
    ),
    "YAML_DUPLICATE_KEY": CodeInfo(
        "A YAML mapping has a duplicate key",
        "Two readers could use two different values for the key.",
        "Remove one of the two.",
    ),
    "TOML_SYNTAX": CodeInfo(
        "The document is not valid TOML",
        "The parser stopped at this location; often a text has no quotes, or a quote is not closed.",
        "Correct the line; write text in double quotes.",
    ),
    "TOML_DEPTH": CodeInfo(
        "The TOML nests too deeply", "Brackets or dotted keys nest more than 16 levels deep.", "Flatten the document."
    ),
    "TOML_NUMBER": CodeInfo(
        "A TOML number or date is out of range",
        "Numbers must be finite and fit 64 bits; dates must exist in the calendar.",
        "Correct the value.",
    ),
    # --- the skill folder --------------------------------------------------------------------------------
    "FRONTMATTER": CodeInfo(
        "The frontmatter is missing",
        "SKILL.md begins with a line '---', then fields in YAML, then a line that is exactly '---'.",
        "Begin the file with a frontmatter that has a name and a description.",
    ),
    "FIELD": CodeInfo(
        "A field has an invalid value",
        "The value has the wrong type, or is outside the allowed values.",
        "Write the field as docs/reference/skill-folder.md describes it.",
    ),
    "ENTRYPOINT": CodeInfo(
        "The entry point is not a file of the skill",
        "The entry point must be one Python file inside the folder, so that a reviewer sees all the code.",
        "Set the entry point to the file's path in the folder, such as scripts/main.py.",
    ),
    "EXPORT": CodeInfo(
        "The export is not a function name",
        "The runtime calls one function of the entry point by this name.",
        "Write a plain name such as main.",
    ),
    "PERMISSION_NETWORK": CodeInfo(
        "A network permission is too wide or ambiguous",
        "A grant names https origins of one owner: https://api.example.com or https://*.example.com.",
        "Name the hosts that the skill calls.",
    ),
    "PERMISSION_SECRET": CodeInfo(
        "A secret has a forbidden name",
        "A secret is one environment variable in capitals, and not one that changes how programs run.",
        "Rename the secret, for example to EXAMPLE_API_KEY.",
    ),
    "SKILL_INVALID": CodeInfo(
        "The folder is not a valid skill",
        "At least one finding is an error; the message names the first.",
        "Run skillwire check on the folder to see every finding.",
    ),
    # --- decoding: Agent Skills Discovery ----------------------------------------------------------------
    "INDEX_SHAPE": CodeInfo(
        "The document is not a skill index",
        "The document is JSON, but has no list named skills, or its $schema is not a string.",
        "Check the address; an index is usually at /.well-known/agent-skills/index.json.",
    ),
    "INDEX_SCHEMA_UNKNOWN": CodeInfo(
        "The index uses an unknown schema",
        "Its $schema names another version of the format, so its entries may have another meaning.",
        "Update skillwire; as a publisher, use the $schema of version 0.2.0.",
    ),
    "INDEX_ENTRIES": CodeInfo(
        "The index has too many entries",
        "The index lists more skills than one index may contain.",
        "Split it into scoped indexes.",
    ),
    "NAME_DUPLICATE": CodeInfo(
        "Two skills have the same name", "Two readers could choose two different skills.", "Rename one of the two."
    ),
    "ENTRY_SHAPE": CodeInfo(
        "An index entry is not an object", "Each entry must be a JSON object.", "Fix or remove the entry."
    ),
    "NAME_FORM": CodeInfo(
        "The skill name is invalid",
        "A name is 1-64 of a-z, 0-9 and hyphens, with no hyphen first, last or doubled, and no device name.",
        "Rename the skill.",
    ),
    "DESCRIPTION_FORM": CodeInfo(
        "The description is missing or malformed",
        "A description is a text of 1 to 1,024 characters.",
        "Describe in one or two sentences what the skill does and when to use it.",
    ),
    "ARTIFACT_TYPE_UNKNOWN": CodeInfo(
        "The artifact type is unknown",
        "Version 0.2.0 defines skill-md and archive.",
        "Use one of the two; as a consumer, update skillwire.",
    ),
    "DIGEST_FORM": CodeInfo(
        "The digest is malformed",
        "A digest is sha256: followed by 64 lower-case hexadecimal characters.",
        "Write the SHA-256 of the artifact's bytes in this form.",
    ),
    "FILES_FORM": CodeInfo(
        "The list of files is malformed",
        "files must be a list of relative paths, with SKILL.md first and no duplicates.",
        "Fix the list; skillwire build writes a correct one.",
    ),
    "HIDDEN_TEXT": CodeInfo(
        "Text contains invisible characters",
        "Invisible characters can carry instructions that a reviewer does not notice.",
        "Remove them. skillwire displays them as escapes and never passes them on.",
        exit_code=None,
    ),
    "UNVERIFIED": CodeInfo(
        "The origin publishes no digests",
        "Its index has version 0.1.0, so downloads cannot be verified against a digest.",
        "Ask the publisher for a 0.2.0 index (skillwire build writes both).",
        exit_code=None,
    ),
    # --- decoding: Skill Sharing -------------------------------------------------------------------------
    "VALIDATION_ERROR": CodeInfo(
        "The document does not match the Skill Sharing schema",
        "A field is missing, or its value has the wrong type or form.",
        "Fix each violation at its JSON Pointer. skillwire validate lists them all.",
    ),
    "VERSION_INCOMPATIBLE": CodeInfo(
        "The document requires a newer major version of the protocol",
        "Its protocol.version has a greater MAJOR than this skillwire supports.",
        "Update skillwire, or ask the provider for a descriptor of the supported version. The skill was not invoked.",
    ),
    "DESCRIPTOR": CodeInfo(
        "The descriptor is unsafe or inconsistent",
        "A URL leads to a forbidden target, an embedded schema is dangerous, or a number is out of range.",
        "Fix the fields listed; docs/reference/protocols/skill-sharing.md lists the rules.",
    ),
    "CAPABILITY_TYPE": CodeInfo(
        "The capability type does not exist",
        "The capability types are plugin, api, knowledge and task.",
        "Use one of these types, or leave the filter out.",
        exit_code=2,
    ),
    "ID_DUPLICATE": CodeInfo(
        "An index lists the same id twice",
        "The id is ambiguous, so the whole index is rejected.",
        "Ask the provider to give each skill its own id.",
    ),
    "ID_DIFFERS": CodeInfo(
        "The descriptor belongs to another skill than the index entry",
        "The id in the index and the id in the descriptor differ.",
        "Ask the provider; the index may be out of date.",
    ),
    "INDEX_DIFFERS": CodeInfo(
        "The descriptor and the index disagree",
        "The index has another version, capability type or access; one of the two is out of date.",
        "Report it to the provider. skillwire uses the descriptor.",
        exit_code=None,
    ),
    "FILTER_IGNORED": CodeInfo(
        "The server returned skills of another type than requested",
        "The server does not support the filter ?type=, or applies it incorrectly.",
        "Report it to the provider: a filtered index must contain matching entries only. skillwire drops the others.",
        exit_code=None,
    ),
    "NO_DIGEST": CodeInfo(
        "The skill cannot be fetched without a digest",
        "Only Skill Sharing or a Skills Protocol endpoint lists it, and neither publishes digests of files.",
        "Call the skill, or ask the provider to publish it through Agent Skills Discovery as well.",
        exit_code=4,
    ),
    # --- paths of files ----------------------------------------------------------------------------------
    "PATH_TRAVERSAL": CodeInfo(
        "A path leads out of the skill's folder",
        "It contains '..', or characters that another reader turns into '..'.",
        "Publish the file under its plain path. Do not trust an archive that you did not make.",
        exit_code=4,
    ),
    "PATH_ABSOLUTE": CodeInfo(
        "A path is absolute",
        "Paths of a skill's files are relative to its folder.",
        "Publish the file under its plain path. Do not trust an archive that you did not make.",
        exit_code=4,
    ),
    "PATH_WINDOWS": CodeInfo(
        "A path has another meaning on Windows",
        "It contains a backslash, a colon, a device name, an 8.3 short name, or a name that ends in a dot or space.",
        "Rename the file.",
        exit_code=4,
    ),
    "PATH_INVALID": CodeInfo(
        "A path is not a valid file name",
        "It is empty, not UTF-8, or contains invisible characters or an empty component.",
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
        "A path nests too deeply", "A path has at most 32 levels.", "Move the file up, nearer to SKILL.md.", exit_code=4
    ),
    "PATH_FORBIDDEN": CodeInfo(
        "A path leads into version control metadata",
        "A tool that later runs in the folder would run the hooks it finds there.",
        "Remove .git, .hg, .svn and .bzr from the skill.",
        exit_code=4,
    ),
    "PATH_COLLISION": CodeInfo(
        "Two paths are the same file on some systems",
        "They are equal, differ only in case or Unicode composition, or one needs the other to be a folder.",
        "Rename one of the two.",
        exit_code=4,
    ),
    # --- archives --------------------------------------------------------------------------------------
    "ARCHIVE_MALFORMED": CodeInfo(
        "The archive is damaged or contradicts itself",
        "The archive was cut off, or was crafted so that two readers see two different skills.",
        "Fetch it again; if the error persists, ask the publisher to pack the skill again.",
    ),
    "ARCHIVE_FORMAT_MISMATCH": CodeInfo(
        "The archive's format differs from its declared type",
        "The server's Content-Type or the file's extension declares one format, and the bytes are another.",
        "Report it to the publisher; application/gzip is for .tar.gz and application/zip for .zip.",
        exit_code=4,
    ),
    "ARCHIVE_TRAILING_DATA": CodeInfo(
        "The archive has data after its end",
        "Some readers stop at the end and others continue, and so see another skill.",
        "Pack the skill again, as one archive.",
        exit_code=4,
    ),
    "ARCHIVE_UNSUPPORTED_METHOD": CodeInfo(
        "The archive's compression method is not supported",
        "A zip of a skill stores its files or deflates them.",
        "Pack the skill again, with deflate.",
    ),
    "ARCHIVE_ENCRYPTED": CodeInfo(
        "The archive is encrypted",
        "skillwire does not ask for archive passwords.",
        "Pack the skill without a password.",
    ),
    "ARCHIVE_ENTRY_TYPE": CodeInfo(
        "The archive contains an entry that is not a file, folder or link",
        "Devices, pipes, sparse files and unknown types are not allowed in a skill.",
        "Pack plain files only. Do not trust an archive that you did not make.",
        exit_code=4,
    ),
    "ARCHIVE_SIZE": CodeInfo(
        "The archive is too large",
        "An archive has at most 32 MiB.",
        "Remove files that the skill does not need.",
        exit_code=4,
    ),
    "ARCHIVE_FILE_SIZE": CodeInfo(
        "A file in the archive is too large",
        "One file has at most 32 MiB.",
        "Remove the file, or split it.",
        exit_code=4,
    ),
    "ARCHIVE_TOTAL_SIZE": CodeInfo(
        "The archive's unpacked size is too large",
        "All files together, links counted as copies, have at most 64 MiB.",
        "Remove files that the skill does not need.",
        exit_code=4,
    ),
    "ARCHIVE_RATIO": CodeInfo(
        "The archive's compression ratio is implausible",
        "More than 200 times the archive's size indicates a decompression bomb.",
        "Do not trust the archive. Remove large files of one repeated byte from your own skill.",
        exit_code=4,
    ),
    "ARCHIVE_HEADER_SIZE": CodeInfo(
        "A header in the archive is too large",
        "Names and comments need less than 64 KiB.",
        "Pack the skill again with default options.",
        exit_code=4,
    ),
    "ARCHIVE_ENTRIES": CodeInfo(
        "The archive contains too many files",
        "An archive has at most 2,000 entries; a link to a folder counts with all its content.",
        "Remove files that the skill does not need.",
        exit_code=4,
    ),
    "LINK_ESCAPE": CodeInfo(
        "A link leads out of the skill's folder",
        "Its target is absolute, or climbs above the folder.",
        "Replace the link with a copy. Do not trust an archive that you did not make.",
        exit_code=4,
    ),
    "LINK_DANGLING": CodeInfo(
        "A link has no target",
        "Its target is not in the archive.",
        "Add the target, or remove the link.",
        exit_code=4,
    ),
    "LINK_LOOP": CodeInfo(
        "A link leads to itself or to a folder that contains it",
        "Following it would never end.",
        "Replace the link with a copy of the files needed.",
        exit_code=4,
    ),
    "LINK_THROUGH": CodeInfo(
        "A path goes through a link",
        "Systems differ on where such a file is written.",
        "Put the file at the link's target.",
        exit_code=4,
    ),
    "NO_SKILL_MD": CodeInfo(
        "There is no SKILL.md at the root",
        "An archive contains the folder's content, without the folder itself.",
        "Pack the content of the skill's folder, not the folder.",
        exit_code=1,
    ),
    "DESTINATION_EXISTS": CodeInfo(
        "The destination already exists",
        "Existing files are overwritten only on request.",
        "Move them away, or choose another destination.",
        exit_code=6,
    ),
    # --- addresses ---------------------------------------------------------------------------------------
    "URL": CodeInfo(
        "The URL is invalid or ambiguous",
        "It is not absolute http or https, or two programs could read it differently.",
        "Write it like https://example.com/path, and percent-encode unusual characters.",
    ),
    "ALLOW_ENTRY": CodeInfo(
        "An entry of the allow list is invalid",
        "An entry is a network (10.0.0.0/8), an address, a host, *.host, or an origin (https://host:8443).",
        "Write the entry in one of these forms.",
        exit_code=2,
    ),
    "ADDRESS_REFUSED": CodeInfo(
        "The address is not on the public internet, and you did not name it",
        "A document, redirect or DNS answer from outside leads into this machine or its network.",
        "If you trust the address, name the host yourself, or add it to the setting allow.",
        exit_code=4,
    ),
    "PLAIN_HTTP_REFUSED": CodeInfo(
        "Plain http is not allowed on the public internet",
        "Anyone on the network path can read and change plain http.",
        "Use https. Plain http works with local hosts that you name.",
        exit_code=4,
    ),
    "PORT_REFUSED": CodeInfo(
        "The URL uses an unusual port that you did not name",
        "Ports other than the scheme's default often belong to internal services.",
        "If you trust it, name the origin with its port yourself, or add it to the setting allow.",
        exit_code=4,
    ),
    # --- the network -------------------------------------------------------------------------------------
    "HEADER": CodeInfo(
        "A header cannot be sent",
        "Its name or value contains a character that HTTP cannot carry, often a line break after a token.",
        "Copy the token again, without a line break at its end.",
        exit_code=2,
    ),
    "REDIRECT_REFUSED": CodeInfo(
        "A redirect was refused",
        "It goes from https to http, sends credentials to another origin, or is not a URL.",
        "Use the redirect's target as the address, if you trust it.",
        exit_code=4,
    ),
    "REDIRECT_LIMIT": CodeInfo(
        "There are too many redirects",
        "The redirects form a loop or a long chain.",
        "Check the address in a browser.",
        exit_code=5,
    ),
    "REDIRECT_BROKEN": CodeInfo(
        "The redirect cannot be followed",
        "It has no Location, or would turn a POST into a GET.",
        "As a publisher, send a Location, and use 307 or 308 to keep the method.",
        exit_code=5,
    ),
    "ANSWER_UNASKED": CodeInfo(
        "The server's response does not match the request",
        "It sent 304 without a condition or 206 without a range; often a cache on the path is broken.",
        "Ask the publisher to check the cache in front of the server.",
        exit_code=5,
    ),
    "CONTENT_TYPE": CodeInfo(
        "The response has an unexpected content type",
        "The address leads to another document, or the server labels it incorrectly.",
        "Check the address; as a publisher, send the correct Content-Type.",
        exit_code=5,
    ),
    "CONTENT_ENCODING": CodeInfo(
        "The response's compression cannot be read",
        "The encoding was not requested, is applied twice, or the compressed data is damaged.",
        "As a publisher, send it uncompressed or with one of the requested encodings.",
        exit_code=5,
    ),
    "BODY_TOO_LARGE": CodeInfo(
        "The response is too large",
        "The response is another document than requested, or was made to exhaust memory.",
        "Check the address; as a publisher, split the content.",
        exit_code=5,
    ),
    "HTTP_SYNTAX": CodeInfo(
        "The response violates HTTP",
        "The server or a proxy is broken, or tries to make two readers see two responses.",
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
        "The connection to the host failed",
        "No server listens at that address, or a firewall blocks the connection.",
        "Check that the server is running, and check the port.",
        retryable=True,
        exit_code=5,
    ),
    "CONNECTION_LOST": CodeInfo(
        "The connection ended before the response was complete",
        "The server stopped, or a proxy or firewall cut the connection.",
        "Try again.",
        retryable=True,
        exit_code=5,
    ),
    "TIMEOUT": CodeInfo(
        "The server did not finish in time",
        "The server or the network is slow or hangs.",
        "Try again later.",
        retryable=True,
        exit_code=5,
    ),
    "TLS_FAILED": CodeInfo(
        "The secure connection to the host failed",
        "The certificate is untrusted, expired or for another host, or TLS is older than 1.2.",
        "Check the host; for a private certificate authority, set SSL_CERT_FILE to its certificate.",
        exit_code=5,
    ),
    # --- resolving and installing ------------------------------------------------------------------------
    "LOCK_FORM": CodeInfo(
        "skills.lock is malformed",
        "The file was edited or merged incorrectly, or was written by a newer version.",
        "Restore it from version control, or remove it and add the skills again.",
    ),
    "STATE_FORM": CodeInfo(
        "A state file of skillwire is damaged",
        "The file was edited, or another program cut off its writing.",
        "Remove the file shown; skillwire fetches its content again.",
    ),
    "LOCK_MISSING": CodeInfo(
        "There is no skills.lock to install from",
        "--frozen installs exactly the content of the lock, and no lock exists.",
        "Run the command where skills.lock is, or install with add first.",
        exit_code=3,
    ),
    "LOCK_MISMATCH": CodeInfo(
        "The request does not match the lock",
        "--frozen installs only the content of skills.lock, byte for byte.",
        "Install without --frozen to change the lock.",
        exit_code=4,
    ),
    "SETTING_FORM": CodeInfo(
        "A setting is unknown or malformed",
        "The settings file or the environment contains an invalid value.",
        "Fix the value at the location shown; docs/reference/settings.md lists the values of each setting.",
        exit_code=2,
    ),
    "NO_SOURCES": CodeInfo(
        "No sources are configured",
        "A bare name is looked up in the configured sources, and there are none.",
        'Write example.com/name, or find --from example.com. To keep it: sources = ["example.com"] in skillwire.toml.',
        exit_code=2,
    ),
    "SKILL_NOT_FOUND": CodeInfo(
        "The skill was not found",
        "None of the searched locations publishes or contains it.",
        "Check the name with skillwire find --refresh; skillwire which REF --explain lists the locations searched.",
        exit_code=3,
    ),
    "FILE_NOT_FOUND": CodeInfo(
        "The skill has no such file",
        "The path is not among the artifact's files; paths are relative to the skill's folder.",
        "List the files with skillwire show REF --files.",
        exit_code=3,
    ),
    "INDEX_NOT_FOUND": CodeInfo(
        "The address publishes no skill index",
        "Neither /.well-known/agent-skills/index.json nor the older path returned an index.",
        "Check the address; a publisher writes an index with skillwire build.",
        exit_code=3,
    ),
    "HTTP_STATUS": CodeInfo(
        "The server returned an error",
        "The origin, or a proxy in front of it, did not return the document.",
        "Try again later; if the error persists, report it to the publisher.",
        retryable=True,
        exit_code=5,
    ),
    "NOT_INSTALLED": CodeInfo(
        "The skill is not installed",
        "skills.lock does not list it.",
        "List the installed skills with skillwire list.",
        exit_code=3,
    ),
    "DOWNGRADE": CodeInfo(
        "The origin went back to an index without digests",
        "The origin published digests before; their absence may be an attack.",
        "Ask the publisher. To accept it, remove the origin from origins.json in the state directory.",
        exit_code=4,
    ),
    "DIGEST_MISMATCH": CodeInfo(
        "The download does not match its digest",
        "The artifact changed, was damaged in transit, or was tampered with. Nothing was installed.",
        "Try again with --refresh, since the artifact may just have changed. If the error persists, report it to the "
        "publisher.",
        exit_code=4,
    ),
    "CODE_INSTALLED": CodeInfo(
        "An installed skill contains code that can run",
        "Its skill.toml declares an action: an agent or server that calls the skill runs its entry point.",
        "Read the code before you let a program call it. Installing runs nothing.",
        exit_code=None,
    ),
    "NAME_MISMATCH": CodeInfo(
        "The skill's name differs from its index entry",
        "The names in SKILL.md and in the index differ; the index name decides the install folder.",
        "Ask the publisher to use one name.",
        exit_code=None,
    ),
    "ORIGIN_REFUSED": CodeInfo(
        "Installing from this origin is not allowed",
        "This origin is not on the allow-list.",
        "If you trust the origin, add it to trusted_origins in the settings.",
        exit_code=4,
    ),
    "ORIGIN_UNKNOWN": CodeInfo(
        "The origin is not trusted yet",
        "A skill contains instructions for an agent, so a new origin needs your consent, which is missing.",
        "Inspect the skill with show, then pass --yes or add the origin to trusted_origins in the settings.",
        exit_code=4,
    ),
    "ORIGIN_NOT_ACCEPTED": CodeInfo(
        "The origin is not among your trusted origins",
        "Consent can be withdrawn only from an origin that has it.",
        "List the trusted origins with skillwire trust list.",
        exit_code=3,
    ),
    "FILE_EXISTS": CodeInfo(
        "The file or folder already exists",
        "A new skill gets its own folder, and existing files are not overwritten.",
        "Choose another name or folder, or move the existing one away.",
        exit_code=6,
    ),
    "SKILL_CONFLICT": CodeInfo(
        "Another folder is in the skill's place",
        "A folder of that name was not installed from this origin, or its files were changed since.",
        "Move it away, or replace it with --overwrite.",
        exit_code=6,
    ),
    "VERIFY_FAILED": CodeInfo(
        "Installed files do not match the lock",
        "Files were changed, removed or added after installation.",
        "Keep a copy of your changes, then restore the files with skillwire add --frozen --overwrite NAME.",
        exit_code=4,
    ),
    "OFFLINE": CodeInfo(
        "The document is not in the cache, and offline mode forbids the network",
        "--offline uses only documents that an earlier command fetched.",
        "Run the command once without --offline.",
        exit_code=5,
    ),
    "FOLDER_BUSY": CodeInfo(
        "Another skillwire process is changing these skills",
        "Only one process changes a skills folder at a time.",
        "Wait until it ends, then try again.",
        retryable=True,
        exit_code=6,
    ),
    "FOLDER_OUTSIDE": CodeInfo(
        "A skills folder leads out of the project",
        "One of its parents is a symbolic link to an outside folder, which a hostile project could exploit.",
        "Remove the link, or install with --global.",
        exit_code=4,
    ),
    "STORAGE": CodeInfo(
        "A file operation failed",
        "A file could not be read or written.",
        "Check permissions and free space; skillwire doctor checks the folders.",
        retryable=True,
        exit_code=7,
    ),
    "SKILLS_KEPT": CodeInfo(
        "Files set aside by an interrupted change were kept",
        "A command was killed and the lock changed since, or the command used another state directory, so the "
        "correct files are unknown.",
        "Move the files you want to keep out of the folder shown, then remove it.",
        exit_code=7,
    ),
    "ACCESS_DENIED": CodeInfo(
        "The origin requires a credential",
        "It responded with 401 or 403.",
        "Pass one with --token, SKILLWIRE_TOKENS or ~/.netrc; skillwire config show lists the origins that have one.",
        exit_code=5,
    ),
    "AUTH_REQUIRED": CodeInfo(
        "The provider requires authentication",
        "Credentials are missing or invalid.",
        "Run skillwire auth login with the provider's address.",
        exit_code=5,
    ),
    "PERMISSION_DENIED": CodeInfo(
        "The credential lacks permission",
        "The credential is valid, but has no access to the skill, or lacks a scope.",
        "Ask the provider for access; the details list the required scopes.",
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
        "The connection failed, or a gateway reported a failure.",
        "Try again later.",
        retryable=True,
        exit_code=5,
    ),
    # --- calling skills ----------------------------------------------------------------------------------
    "ENDPOINT_FOREIGN": CodeInfo(
        "The skill's endpoint is at another origin, for which you have a credential",
        "The descriptor names an endpoint at an origin that you did not name.",
        "Check the endpoint with skillwire show REF --descriptor; then confirm the question, or pass --yes.",
        exit_code=4,
    ),
    "CIRCUIT_OPEN": CodeInfo(
        "Calls to the endpoint are paused after repeated failures",
        "The endpoint failed several times in a row, or reported overload; more requests would not help.",
        "Try again in half a minute.",
        retryable=True,
        exit_code=5,
    ),
    "CALL_TAKEN_UP": CodeInfo(
        "An earlier call was resumed",
        "The same call was sent a moment ago without a confirmation. It is sent again under its key, so that it is "
        "executed once.",
        "To execute it once more, pass --idempotency-key with a text of your own.",
        exit_code=None,
    ),
    "OUTPUT_DIFFERS": CodeInfo(
        "The output does not match the descriptor",
        "The skill returned a value that its own output schema does not allow.",
        "Check the output before you use it, and report it to the provider.",
        exit_code=None,
    ),
    "EXECUTION_FAILED": CodeInfo(
        "The execution failed",
        "The skill or one of its dependencies failed; the message and details give the reason.",
        "Correct the inputs if they are the reason; otherwise ask the provider.",
        exit_code=8,
    ),
    "EXECUTION_TIMED_OUT": CodeInfo(
        "The execution exceeded its time limit",
        "It reached the shortest limit of the skill, the server and --timeout.",
        "Call it again with a longer --timeout, or ask the provider.",
        retryable=True,
        exit_code=8,
    ),
    "EXECUTION_CANCELLED": CodeInfo(
        "The execution was cancelled", "Its caller or an operator cancelled it.", "Call it again.", exit_code=8
    ),
    "EXECUTION_PENDING": CodeInfo(
        "The execution is not finished yet",
        "It takes longer than this command waits.",
        "Run skillwire executions result with its ID to wait longer, or skillwire executions cancel to end it.",
        retryable=True,
        exit_code=9,
    ),
    "EXECUTION_UNKNOWN": CodeInfo(
        "The execution ID is unknown on this machine",
        "The ID is mistyped, or the call was made by another user, on another machine, or long ago.",
        "Give the URL of its status instead of the ID.",
        exit_code=3,
    ),
    # --- logging in --------------------------------------------------------------------------------------
    "LOGIN_FORM": CodeInfo(
        "The login options are invalid",
        "An option for this kind of login is missing or conflicts with another, or there is no terminal to ask on.",
        "Read skillwire auth login --help.",
        exit_code=2,
    ),
    "LOGIN_NOT_AGREED": CodeInfo(
        "You did not confirm the login host",
        "An origin may name any host as its authorization server, and that host sees your input.",
        "Check the host; then confirm the question, or pass --yes.",
        exit_code=4,
    ),
    "LOGIN_STATE": CodeInfo(
        "The browser returned a response to another login",
        "The response belongs to an earlier login, or is an attempt to inject a foreign login.",
        "Run skillwire auth login again, and open only the address that it prints.",
        exit_code=4,
    ),
    "LOGIN_DENIED": CodeInfo(
        "The login was denied",
        "You or the authorization server denied the request.",
        "Run skillwire auth login again and approve it; use --scope to request less.",
        exit_code=5,
    ),
    "LOGIN_TIMEOUT": CodeInfo(
        "The login was not finished in time",
        "A browser login may take five minutes; the server sets the limit for a device code.",
        "Run skillwire auth login again.",
        retryable=True,
        exit_code=5,
    ),
    "LOGIN_REFUSED": CodeInfo(
        "The authorization server refused the login",
        "The client ID or its secret is wrong, or the flow or scope is not allowed for this client.",
        "Check --client-id, --flow and --scope with the operator of the authorization server.",
        exit_code=5,
    ),
    "LOGIN_ANSWER": CodeInfo(
        "The authorization server's response is invalid",
        "The response lacks a required field, or contradicts an earlier one.",
        "Report it to the operator of the authorization server.",
    ),
    "LOGIN_EXPIRED": CodeInfo(
        "The stored login has expired",
        "Its token expired or was revoked, and cannot be renewed.",
        "Run skillwire auth login with the origin again, or skillwire auth logout to continue without it.",
        exit_code=5,
    ),
    "LOGIN_MISSING": CodeInfo(
        "There is no login for this origin",
        "No credential is stored for the origin.",
        "List the logins with skillwire auth status.",
        exit_code=3,
    ),
    "CREDENTIALS_OPEN": CodeInfo(
        "Other users can read the credentials file",
        "Its permissions were changed; the file contains tokens.",
        "Restrict it with chmod 600, and renew the credentials.",
        exit_code=7,
    ),
    "KEYRING": CodeInfo(
        "The system's keyring cannot be used",
        "The extra keyring is not installed, or the keyring is missing or locked.",
        "Unlock it, or set credential_store to file and log in again.",
        exit_code=7,
    ),
    # --- publishing --------------------------------------------------------------------------------------
    "FOLDER_MISSING": CodeInfo(
        "The folder does not exist",
        "The path is mistyped, or is a file.",
        "Give a folder of skills, or a skill.",
        exit_code=2,
    ),
    "PUBLISHER_FORM": CodeInfo(
        "The publisher's name is invalid",
        "A publisher is 1-64 letters, digits, hyphens and dots, and begins and ends with a letter or digit.",
        "Use a name like example-corp.",
        exit_code=2,
    ),
    "SKILLS_BROKEN": CodeInfo(
        "Some skills cannot be published",
        "They break rules that make skills readable for all clients.",
        "Fix the reported errors, or publish the other skills with --skip-broken.",
    ),
    "SITE_FOREIGN": CodeInfo(
        "The site folder contains files that were not built",
        "A build replaces only files that builds have made.",
        "Choose another folder, move the files away, or pass --force to keep them beside the site.",
        exit_code=6,
    ),
    "SITE_OVERLAP": CodeInfo(
        "The site and the skills overlap",
        "A site inside a skill becomes part of it; skills inside a site are published with all files beside them.",
        "Choose a site folder that neither contains a skill nor is inside one.",
        exit_code=2,
    ),
    "SITE_MANIFEST": CodeInfo(
        "The site's manifest is not trustworthy",
        "It was edited, damaged, or written by another version.",
        "Build into a new folder.",
        exit_code=4,
    ),
    "FUNCTION_FORM": CodeInfo(
        "The function cannot be described as a skill",
        "A parameter has no type hint or one without a JSON Schema form, or the docstring contradicts the signature.",
        "Give each parameter a JSON-compatible type, and describe the function in its docstring.",
        exit_code=2,
    ),
    "FOLDER_UNSTEADY": CodeInfo(
        "The skill's folder changes while it is being read",
        "Another program is writing to it.",
        "Wait until the program has finished, and try again.",
        retryable=True,
        exit_code=None,
    ),
    "WORKER_LOST": CodeInfo(
        "A process that loads skills ended unexpectedly",
        "It ran out of memory or was killed.",
        "Try again; if the error persists, load fewer folders at once.",
        retryable=True,
        exit_code=7,
    ),
    "PORT_IN_USE": CodeInfo(
        "The port is in use",
        "Another program listens on it, often an earlier server that is still running.",
        "Stop that program, or choose another port with --port (0 picks a free one).",
        exit_code=6,
    ),
    "HOST_UNUSABLE": CodeInfo(
        "The server cannot listen at this address",
        "The host is not an address of this machine, or the port needs more privileges.",
        "Use 127.0.0.1, 0.0.0.0 or an address of this machine, and a port above 1023.",
        exit_code=2,
    ),
    # --- running skills ----------------------------------------------------------------------------------
    "SANDBOX_UNAVAILABLE": CodeInfo(
        "Skills cannot run on this machine",
        "A skill's code runs only in a bubblewrap sandbox, which does not work here.",
        "Install bubblewrap 0.8 or newer; skillwire doctor shows the reason.",
        exit_code=4,
    ),
    "SECRETS_FILE": CodeInfo(
        "The skills' secrets file cannot be used",
        "The file is missing, is readable or writable by other users, or has an invalid format.",
        "Restrict it to the server's user (chmod 600), with lines like NAME=value, or as TOML.",
        exit_code=7,
    ),
    # --- JSON-RPC ----------------------------------------------------------------------------------------
    "RPC_REQUEST": CodeInfo(
        "The request is not JSON-RPC 2.0",
        'A request is an object with "jsonrpc": "2.0", a method, params as an object, and an id; or a list of them.',
        "Write the request as docs/reference/protocols/skills-rpc.md shows it.",
    ),
    "RPC_METHOD": CodeInfo(
        "The endpoint has no such method",
        "The name is misspelt, or belongs to another protocol or version.",
        "Call one of the methods that docs/reference/protocols/skills-rpc.md lists.",
        exit_code=3,
    ),
    "RPC_PARAMS": CodeInfo(
        "The parameters do not fit the method",
        "One is missing, unknown, out of range or of another type, or they are given by position.",
        "Give the parameters by name, as docs/reference/protocols/skills-rpc.md lists them.",
    ),
    "RPC_ANSWER": CodeInfo(
        "The response is not a JSON-RPC 2.0 response to this call",
        "The address belongs to another service, or a proxy responds instead of the endpoint.",
        "Check the address; a server's endpoint is usually /rpc.",
    ),
    "RUN_NOT_FOUND": CodeInfo(
        "The run does not exist",
        "The ID is misspelt, the run belongs to another caller, or it has expired.",
        "Use the run_id that the call returned, with the same credentials.",
        exit_code=3,
    ),
    "RUN_PENDING": CodeInfo(
        "The run continues",
        "The run was started over JSON-RPC or MCP, and the server stopped waiting, for example at shutdown.",
        "Check its status with GET /executions/ID of the server. A second call would run it twice.",
        exit_code=9,
    ),
    # --- MCP ---------------------------------------------------------------------------------------------
    "MCP_MISSING": CodeInfo(
        "The Model Context Protocol SDK is not installed",
        "The SDK is an optional extra because of its size.",
        "Install it: uv tool install 'skillwire[mcp]', or pip install 'skillwire[mcp]'.",
        exit_code=2,
    ),
    "PAGE_REFUSED": CodeInfo(
        "Web pages of this origin are not allowed to do this",
        "A page of an unknown origin tried to call, cancel, use blobs or speak MCP, as an attack would.",
        "If the page is yours, add its origin to origins below [rpc] in the server's configuration.",
        exit_code=None,
    ),
    # --- neighbours --------------------------------------------------------------------------------------
    "MARKETPLACE_FORM": CodeInfo(
        "The document is not a plugin marketplace",
        "A marketplace.json is an object with a name, an owner and a list of plugins.",
        "Name the folder that has .claude-plugin/marketplace.json or .claude-plugin/plugin.json, or the file.",
    ),
    "MARKETPLACE_NAME": CodeInfo(
        "The marketplace or plugin name is invalid",
        "A name has letters, digits, dots and hyphens, since users type it after an @; some names are reserved.",
        "Choose another one with --name or --plugin.",
        exit_code=2,
    ),
    "PLUGIN_FORM": CodeInfo(
        "A plugin of the marketplace was skipped",
        "Its entry has no name, no readable source, or a path that leads out of the marketplace.",
        "Report it to the publisher of the marketplace.",
    ),
    "PLUGIN_ELSEWHERE": CodeInfo(
        "A plugin outside of its marketplace was not fetched",
        "Its source is a git repository, a package or a command; an import runs nothing and fetches no repositories.",
        "Fetch it yourself, and import the folder.",
        exit_code=None,
    ),
    "PLUGIN_WITHOUT_SKILLS": CodeInfo(
        "A plugin has no skills to import",
        "It has only commands, agents, hooks or servers; or it lists none, and HTTP cannot list folders.",
        "If it has skills, clone the repository and import its folder.",
        exit_code=None,
    ),
    "FILES_UNLISTED": CodeInfo(
        "A skill was fetched without a list of its files",
        "Over HTTP only the files that SKILL.md links to can be found; other files are missing.",
        "To get every file, clone the repository and import its folder.",
        exit_code=None,
    ),
    # --- searching ---------------------------------------------------------------------------------------
    "QUERY": CodeInfo(
        "The search query is invalid",
        "A parameter is malformed, or exceeds the limits in docs/reference/limits.md.",
        "Write the parameters as docs/reference/http.md describes them.",
        exit_code=2,
    ),
    "CURSOR": CodeInfo(
        "The cursor is not valid for this search",
        "A cursor continues one search over one set of skills; it belongs to another search, or the skills have "
        "changed.",
        "Search again without after, and continue with the next of that response.",
        exit_code=2,
    ),
    # --- tokens ------------------------------------------------------------------------------------------
    "TOKEN_FORM": CodeInfo(
        "The token's options are invalid",
        "Its name, a skill, a scope or its expiry is malformed.",
        "Read skillwire token create --help.",
        exit_code=2,
    ),
    "TOKEN_NOT_FOUND": CodeInfo(
        "The token does not exist",
        "The ID is mistyped, or belongs to another state directory.",
        "List the tokens with skillwire token list.",
        exit_code=3,
    ),
    "DATABASE": CodeInfo(
        "The server's database cannot be used",
        "The file is damaged, not writable, locked by another process, or was written by a newer version.",
        "Check the file shown, its folder and the free space.",
        exit_code=7,
    ),
    "SERVER_KEY": CodeInfo(
        "The server's key cannot be used",
        "The file is readable by other users, or does not contain a key.",
        "Restore it from a copy. To create a new key, which invalidates every token, remove the file.",
        exit_code=7,
    ),
    # --- keys of the local network -----------------------------------------------------------------------
    "LAN_KEYS": CodeInfo(
        "The agent's key cannot be used",
        "The file is readable by other users, or contains no P-256 key, or a secret that is too short.",
        "Restrict it with chmod 600 FILE. For a new key, run skillwire key new --replace.",
        exit_code=7,
    ),
    "LAN_NAME": CodeInfo(
        "The agent's name is already in use on the local network",
        "Another process of this user, or another agent with another key, uses the same agentId.",
        "Give each agent its own agentId in [discovery], or remove it: the second process is then named NAME-2.",
        exit_code=6,
    ),
    "LAN_UNHEARD": CodeInfo(
        "An agent on the local network uses an incompatible profile",
        "It uses the other profile (open, signed) or another group key, so the two agents cannot read each other's "
        "messages.",
        "Set profile in [discovery], and groupKeyFile in [discovery.trust], to the same values on all agents of a "
        "network.",
        exit_code=7,
    ),
    "LAN_TRUST": CodeInfo(
        "The certificates for verifying agents cannot be used",
        "A file of roots, intermediates or revocations is missing or invalid, or our certificate is for another agent.",
        "Name files in PEM or DER as skillwire ca init writes them: root.pem and center.pem.",
        exit_code=1,
    ),
    "LAN_REVOCATIONS": CodeInfo(
        "A certificate revocation list was refused",
        "It is damaged, too large, dated in the future, or not signed by a trusted authority.",
        "Name the list of an authority trusted here. The last valid list stays in force.",
        exit_code=4,
    ),
    "CA_FOLDER": CodeInfo(
        "The folder contains no certificate authority",
        "The folder is mistyped, or its certificate or key is elsewhere.",
        "Create one with skillwire ca init FOLDER. To sign with a key stored elsewhere, put it back or name it with "
        "--root-key FILE.",
        exit_code=3,
    ),
    "CA_EXISTS": CodeInfo(
        "The folder already contains a certificate authority",
        "Replacing it would invalidate every certificate that it has issued.",
        "Use the existing authority, or name another folder.",
        exit_code=6,
    ),
    "CA_IN_USE": CodeInfo(
        "The issuing SkillCenter CA cannot be revoked",
        "Without another one, no certificate could be issued or revoked.",
        "Create the next one first with skillwire ca renew FOLDER. Revoking this one ends the certificates it has "
        "issued.",
        exit_code=6,
    ),
    "KEY_EXISTS": CodeInfo(
        "A key already exists",
        "Replacing it would invalidate its certificates.",
        "To replace it, pass --replace; to certify it, run skillwire key new.",
        exit_code=6,
    ),
    "CA_PASSPHRASE": CodeInfo(
        "The authority's key cannot be decrypted",
        "The key is encrypted, and the passphrase in SKILLWIRE_CA_PASSPHRASE is missing or wrong.",
        "Set SKILLWIRE_CA_PASSPHRASE to the passphrase used when the authority was created.",
        exit_code=4,
    ),
    "CERTIFICATE_REQUEST": CodeInfo(
        "The certificate request was rejected",
        "The request is damaged, not signed by its own key, uses another key type than P-256, or names invalid "
        "subjects.",
        "Create a request with skillwire key new, or name agents, skills and hosts in their plain forms.",
        exit_code=1,
    ),
    "CERTIFICATE_REFUSED": CodeInfo(
        "The certificate was not issued or renewed",
        "The requesting certificate expired, was revoked, belongs to another authority, or requests more than it "
        "has; or a certificate of the same key was revoked.",
        "Issue a new one with skillwire ca issue and skillwire key install; for another key, run skillwire key new "
        "--replace.",
        exit_code=4,
    ),
    "CERTIFICATE_NOT_FOUND": CodeInfo(
        "The authority has not issued this certificate",
        "The serial number or name is mistyped, or another authority has issued it.",
        "List the certificates with skillwire ca list FOLDER.",
        exit_code=3,
    ),
    # --- grants ------------------------------------------------------------------------------------------
    "GRANT_NEEDLESS": CodeInfo(
        "The skill does not need a grant",
        "It contains instructions, a task for a person, or a function of the publisher's own program.",
        "Call it directly; grants are for skills that run code or call an API.",
        exit_code=2,
    ),
    "GRANT_NOT_AGREED": CodeInfo(
        "The skill is not allowed to run on this machine",
        "A folder's code runs only after a person has granted exactly this version, and the grant is missing.",
        "Review it with skillwire grant add --dry-run, then confirm the question, or pass --yes.",
        exit_code=4,
    ),
    "GRANT_NOT_FOUND": CodeInfo(
        "There is no such grant",
        "The name or digest is mistyped, or the grant belongs to another state directory.",
        "List the grants with skillwire grant list.",
        exit_code=3,
    ),
    # --- tasks for people --------------------------------------------------------------------------------
    "TASK_NOT_FOUND": CodeInfo(
        "The task does not exist",
        "The ID is mistyped, belongs to another state directory, or is an abbreviation for a finished task.",
        "List the open tasks with skillwire inbox list.",
        exit_code=3,
    ),
    "TASK_TAKEN": CodeInfo(
        "You have not claimed this task",
        "Another user has claimed it, or it is unclaimed.",
        "Claim an unclaimed task with skillwire inbox claim ID; otherwise its holder must complete or release it.",
        exit_code=6,
    ),
    "TASK_ENDED": CodeInfo(
        "The task has ended",
        "It was completed, rejected or cancelled, or its time is over.",
        "List the open tasks with skillwire inbox list.",
        exit_code=6,
    ),
    # --- the local network -------------------------------------------------------------------------------
    "DATAGRAM": CodeInfo(
        "The datagram is not Skill Discovery",
        "Another program sent it to the port, by mistake or as an attack; it is dropped and counted.",
        "If there are many, find the machine that sends them.",
    ),
    "DATAGRAM_FIELD": CodeInfo(
        "A value cannot be sent in a datagram",
        "Identifiers are letters, digits, dots, hyphens and underscores; an endpoint is host:port.",
        "Correct the value shown.",
    ),
    "DATAGRAM_SIZE": CodeInfo(
        "The datagram would be too large",
        "A datagram has at most 1,200 bytes, so that it is not fragmented.",
        "Use fewer or shorter capabilities or scenes.",
    ),
    "DISC_001": CodeInfo(
        "No agent on the network responded in time",
        "There is no agent, its responses were lost, or a firewall blocks UDP port 54321.",
        "Try again, with a longer pause each time; skillwire lan lists the agents that this machine receives.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_002": CodeInfo(
        "No matching skills were found on the network",
        "No agent offers the requested capabilities, or the skills offered are not trusted.",
        "Ask for fewer capabilities, or search your configured sources: skillwire find QUERY.",
        exit_code=3,
    ),
    "DISC_003": CodeInfo(
        "A skill could not be registered",
        "An agent rejected the registration: our key lacks a certificate for this skill, another key has one, or our "
        "clock is wrong.",
        "Check the key, the certificate and the clock of this machine, and try again.",
        retryable=True,
        exit_code=4,
    ),
    "DISC_004": CodeInfo(
        "A skill's key is not trusted",
        "Its key has no valid certificate chain to a configured root, or the skill is known only from other agents. "
        "For a joined scene, its provider issues no key.",
        "Check the certificate chain: [discovery.trust] roots. To use the skill without verification, pass "
        "--unverified.",
        exit_code=4,
    ),
    "DISC_005": CodeInfo(
        "A scene was joined without a key because of a network failure",
        "Its provider, or the provider's key service, refused or broke the connection, or did not respond in time. "
        "Without any network, the code is LAN_UNAVAILABLE.",
        "Request the scene again in a moment. Public parts need no key, and an earlier key is valid until it expires.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_006": CodeInfo(
        "A skill on the network is unavailable",
        "It is UNHEALTHY, OFFLINE or under maintenance, or its endpoint does not respond.",
        "Use another skill with the same capability: skillwire find CAPABILITY --lan.",
        retryable=True,
        exit_code=5,
    ),
    "DISC_007": CodeInfo(
        "No agent on the network provides the scene",
        "No registered skill is in the scene, or none has all the requested capabilities.",
        "List the scenes with skillwire scene list, or install and serve a skill that takes part in the scene.",
        exit_code=3,
    ),
    "LAN_UNAVAILABLE": CodeInfo(
        "No local network is available",
        "No interface with multicast is up, or the configured interface does not exist.",
        "Connect the machine, or name an active interface in [discovery.udp] interfaces.",
        retryable=True,
        exit_code=5,
    ),
    "LAN_CACHE": CodeInfo(
        "The cache of the local network is unreadable",
        "The file was cut short, or another program wrote it. It counts as empty.",
        "Ignore this: the next discovery writes the cache again.",
    ),
    "DISCOVERY_CONFIGURATION": CodeInfo(
        "The discovery configuration is invalid",
        "A table or key is unknown or malformed, or two values contradict each other.",
        "Correct it at the location shown; docs/reference/protocols/skill-discovery.md lists all keys.",
    ),
    # --- who asks the server -----------------------------------------------------------------------------
    "SERVER_CONFIGURATION": CodeInfo(
        "The server's configuration is invalid",
        "A table or key is unknown, missing or malformed.",
        "Correct it at the location shown; docs/reference/server-configuration.md lists all keys.",
        exit_code=2,
    ),
    "ISSUER_UNAVAILABLE": CodeInfo(
        "The authorization server is unavailable",
        "It is down or slow, rejects this server's credentials, or sends invalid responses.",
        "Try again in a moment. As the operator, check [oauth2] and whether its addresses are reachable.",
        retryable=True,
        exit_code=None,
    ),
    "TOO_MANY_REQUESTS": CodeInfo(
        "The request rate is too high",
        "Each caller has a limit per minute; the response gives the limit and the time to wait.",
        "Wait for the seconds in Retry-After.",
        retryable=True,
        exit_code=None,
    ),
    "TOO_MANY_EXECUTIONS": CodeInfo(
        "Too many executions are waiting",
        "Each caller, and all callers together, have a limit on waiting and running executions.",
        "Wait for the seconds in Retry-After. As the operator, raise the limits in [executions].",
        retryable=True,
        exit_code=None,
    ),
    "BLOB_NOT_FOUND": CodeInfo(
        "The blob does not exist",
        "Another caller created it, or it has expired: blobs expire some time after their last use.",
        "Create it again with create_blob.",
        exit_code=3,
    ),
    "BLOB_KIND": CodeInfo(
        "The kind of a blob is not a media type",
        "A kind is a type and a subtype, such as text/csv or image/png.",
        "Write it as type/subtype; application/octet-stream fits everything.",
    ),
    "BLOB_ROOM": CodeInfo(
        "There is no space left for the blob",
        "The blobs of one caller, all blobs, and uploads in progress each have a size limit.",
        "Send it later, when other blobs have expired. As the operator, see blobs_per_owner in [rpc].",
        retryable=True,
        exit_code=6,
    ),
    "TOO_MANY_SIGNATURES": CodeInfo(
        "One key signs more requests than the server can remember",
        "Each signature is accepted once, so the server stores those of the last minutes.",
        "Send fewer requests a minute, or distribute them over several keys.",
        retryable=True,
        exit_code=None,
    ),
    "WEBHOOK_SIGNATURE": CodeInfo(
        "The webhook's signature is invalid",
        "It was signed with another secret, changed in transit, or is older than five minutes.",
        "Check the secret, the clock, and that the body is read byte for byte; ignore the request.",
        exit_code=4,
    ),
    # --- answers of the server ---------------------------------------------------------------------------
    "NOT_FOUND": CodeInfo(
        "Nothing is published at this path",
        "The URL is mistyped, or the skill or file was removed.",
        "See the published skills in /.well-known/agent-skills/index.json.",
        exit_code=None,
    ),
    "METHOD_NOT_ALLOWED": CodeInfo(
        "The resource does not support this method",
        "Published resources are read-only over HTTP.",
        "Use a method of the Allow field.",
        exit_code=None,
    ),
    "MEDIA_TYPE": CodeInfo(
        "The body's media type is not supported",
        "A skill is called with JSON.",
        "Send the body as JSON, with Content-Type: application/json.",
        exit_code=None,
    ),
    "URL_TOO_LONG": CodeInfo(
        "The URL is too long",
        "It is longer than any published URL.",
        "Check how the URL is built.",
        exit_code=None,
    ),
    "RANGE_UNSATISFIABLE": CodeInfo(
        "The requested range is beyond the end",
        "The file is shorter than the client expects; it may have changed.",
        "Fetch the whole file.",
        exit_code=None,
    ),
    "HEAD_TOO_LARGE": CodeInfo(
        "The request's head is too large",
        "The request line and header fields exceed the server's limit.",
        "Send fewer or smaller header fields, such as cookies.",
        exit_code=None,
    ),
    "REQUEST_TIMEOUT": CodeInfo(
        "The request took too long to arrive",
        "It was sent slowly or incompletely.",
        "Send the request again.",
        retryable=True,
        exit_code=None,
    ),
    "NOT_READY": CodeInfo(
        "The server is still loading its skills",
        "The server has just started.",
        "Try again in a second.",
        retryable=True,
        exit_code=None,
    ),
    "INTERNAL": CodeInfo(
        "An internal error occurred",
        "This is a bug in skillwire.",
        "Run it again as skillwire --debug ..., or read the server's log, and report the error.",
        retryable=True,
        exit_code=70,
    ),
}
