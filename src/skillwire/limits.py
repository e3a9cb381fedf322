"""Every bound on untrusted input: value, unit, reason and source.

A bound is an ``int`` or ``float`` with its unit and reason, so ``limits.INDEX_BYTES`` is a number in code and a
sentence in the docs.
"""

from __future__ import annotations

from typing import Self

KIB = 1024
MIB = 1024 * KIB


class Bound(int):
    """A whole-number bound with its unit, its reason and the clause it comes from."""

    unit: str
    reason: str
    clause: str

    def __new__(cls, value: int, unit: str, reason: str, clause: str = "ours") -> Self:
        """Return ``value`` as a bound."""
        bound = super().__new__(cls, value)
        bound.unit = unit
        bound.reason = reason
        bound.clause = clause
        return bound


# --- the index -------------------------------------------------------------------------------------------
INDEX_BYTES = Bound(16 * MIB, "bytes", "10,000 skills need about 5 MiB; the rest is room to grow")
INDEX_ENTRIES = Bound(20_000, "entries", "more skills than one origin can mean, and a second to read")
NAME_LENGTH = Bound(64, "characters", "the Agent Skills name rule", "ASD URI Structure")
DESCRIPTION_LENGTH = Bound(1024, "characters", "the Agent Skills description rule", "ASD Index Format")
URL_LENGTH = Bound(2048, "characters", "what browsers and proxies carry")

# --- documents -------------------------------------------------------------------------------------------
JSON_DEPTH = Bound(64, "levels", "no document of ours nests deeper than 12; parsers recurse")
JSON_VALUES = Bound(1_000_000, "values and keys", "a full index has 600,000; each costs up to 100 bytes of memory")
JSON_INTEGER_DIGITS = Bound(20, "digits", "covers 64 bits; longer ones cost quadratic time")
FRONTMATTER_BYTES = Bound(64 * KIB, "bytes", "a description is at most 1 KiB; aliases make small input big")
SKILL_MD_BYTES = Bound(1 * MIB, "bytes", "5,000 tokens are advised, which is about 20 KiB")
YAML_DEPTH = Bound(16, "levels", "metadata is one map deep; parsers recurse")
YAML_NODES = Bound(4096, "nodes", "bounds the work of composing")
DESCRIPTOR_BYTES = Bound(256 * KIB, "bytes", "a descriptor has 1 KiB; schemas of its inputs make some 50")
TOML_BYTES = Bound(64 * KIB, "bytes", "60 KB of dotted keys cost the standard parser 13 s")
TOML_DEPTH = Bound(16, "levels", "a manifest of ours nests three deep; parsers recurse")

# --- archives (the limits that the corpus assumes) -------------------------------------------------------
ARCHIVE_BYTES = Bound(32 * MIB, "bytes", "read into memory whole, so that its digest is checked first")
ARCHIVE_TOTAL_BYTES = Bound(64 * MIB, "bytes", "what all files of a skill may unpack to", "ASD Archive Safety")
ARCHIVE_FILE_BYTES = Bound(32 * MIB, "bytes", "what one file may unpack to", "ASD Archive Safety")
REVIEW_BYTES = Bound(
    8 * MIB, "bytes", "of a skill's text that are searched for what it may do; later files are listed unread"
)
REVIEW_FILE_BYTES = Bound(1 * MIB, "bytes", "of one file that is searched; a larger one is listed unread")
REVIEW_VALUES = Bound(1_000, "values", "of one kind; the others are one value with their number and digest")
ARCHIVE_ENTRIES = Bound(2_000, "entries", "twice what we publish")
ARCHIVE_PATH_BYTES = Bound(512, "bytes", "well under PATH_MAX with any destination in front")
ARCHIVE_COMPONENT_BYTES = Bound(255, "bytes", "NAME_MAX of common file systems")
ARCHIVE_DEPTH = Bound(32, "levels", "no skill nests deeper than six")
ARCHIVE_RATIO = Bound(200, "times", "text compresses 20 times, a bomb 1,000 times", "ASD Archive Safety")
ARCHIVE_RATIO_FLOOR_BYTES = Bound(4 * MIB, "bytes", "below it a high ratio does no harm")
ARCHIVE_HEADER_BYTES = Bound(64 * KIB, "bytes", "extension headers and the gzip header, each")
ARCHIVE_STREAM_BYTES = Bound(72 * MIB, "bytes", "what a tar may inflate to: its files, 2,000 headers, padding")
ARCHIVE_LINK_HOPS = Bound(40, "links", "as many as Linux follows in one path")

# --- what we publish -------------------------------------------------------------------------------------
PUBLISH_FILES = Bound(1_000, "files", "what the most used installer unpacks at most")
PUBLISH_TOTAL_BYTES = Bound(50 * MIB, "bytes", "what the most used installer unpacks at most")
PUBLISH_PATH_BYTES = Bound(100, "bytes", "a ustar name; longer ones go into a zip")
SKILL_MD_LINES = Bound(500, "lines", "advice: agents load the whole body", "ASD Progressive Disclosure")
SKILL_MD_TOKENS = Bound(5_000, "tokens", "advice: agents load the whole body", "ASD Progressive Disclosure")
COMPATIBILITY_LENGTH = Bound(500, "characters", "the Agent Skills compatibility rule")

# --- what we keep on disk --------------------------------------------------------------------------------
LOCK_BYTES = Bound(16 * MIB, "bytes", "a thousand skills of a hundred files each")
SETTINGS_BYTES = Bound(64 * KIB, "bytes", "a settings file is written by hand")
STATE_FILE_BYTES = Bound(4 * MIB, "bytes", "tens of thousands of remembered origins")

# --- HTTP ------------------------------------------------------------------------------------------------
HTTP_REDIRECTS = Bound(5, "redirects", "a chain longer than this is a mistake or a trap", "ASD HTTP")
HTTP_HEADER_BYTES = Bound(64 * KIB, "bytes", "all header lines of one answer")
HTTP_HEADERS = Bound(100, "headers", "of one answer")
HTTP_INTERIM_RESPONSES = Bound(4, "responses", "1xx answers before the real one")
HTTP_CHUNKS = Bound(100_000, "chunks", "of one body; chunks of one byte would cost more work than bytes")
HTTP_ADDRESSES = Bound(4, "addresses", "of one host that are tried; the owner of a name decides how many it has")
HTTP_CONNECT_SECONDS = Bound(10, "seconds", "to be connected, TLS included")
HTTP_REQUEST_SECONDS = Bound(
    60, "seconds", "for one whole request, and for all questions to an origin about a reference"
)
HTTP_KEPT = Bound(32, "connections", "that wait for their next request, to all origins")
HTTP_CONCURRENCY = Bound(6, "connections", "to one origin at once")
DOWNLOAD_TRIES = Bound(4, "tries", "of one download that bring nothing new, one after the other")
DOWNLOAD_REQUESTS = Bound(20, "requests", "for one download in all, however much each brings")
DOWNLOAD_WAIT_SECONDS = Bound(30, "seconds", "before the next try; a server that asks for more is asked another day")
DOWNLOAD_SECONDS = Bound(900, "seconds", "for one skill with all tries; 32 MiB at 40 kB/s")
DOWNLOAD_PIECE_BYTES = Bound(256 * KIB, "bytes", "of a download in memory; smaller ones never lie in a file")
DOWNLOADS_KEPT = Bound(16, "downloads", "that broke off and are kept to be continued")
DOWNLOADS_KEPT_BYTES = Bound(128 * MIB, "bytes", "of all downloads that broke off")
DOWNLOADS_KEPT_SECONDS = Bound(7 * 24 * 3600, "seconds", "that a download that broke off is kept")

# --- Git repositories ------------------------------------------------------------------------------------
GIT_REFS = Bound(100_000, "references", "of one repository that match a question")
GIT_REFS_BYTES = Bound(16 * MIB, "bytes", "of such an answer")
GIT_PACK_BYTES = Bound(32 * MIB, "bytes", "of one pack; of a server that filters it holds the wanted files alone")
GIT_SMALL_PACK_BYTES = Bound(256 * KIB, "bytes", "of a pack with all small files; otherwise the folders come first")
GIT_OBJECTS = Bound(200_000, "objects", "of one pack; each costs a hash")
GIT_OBJECT_BYTES = Bound(128 * MIB, "bytes", "of the objects of one pack, inflated, and kept by one client")
GIT_FILES = Bound(200_000, "files and folders", "of one commit; a folder can contain itself under many names")
GIT_VERSIONS_TRIED = Bound(8, "versions", "that are packed to find the one with a digest")
GIT_SECONDS = Bound(60, "seconds", "of git itself, for one question to a repository of this machine")

# --- logging in ------------------------------------------------------------------------------------------
OAUTH_BYTES = Bound(64 * KIB, "bytes", "of an authorization server's answer; tokens and metadata have 2 to 8 KiB")
OAUTH_TOKEN_LENGTH = Bound(16 * KIB, "characters", "of a token; more than fits into a header field of most servers")
OAUTH_TOKEN_SECONDS = Bound(10 * 365 * 24 * 3600, "seconds", "the longest stated life of a token")
LOGIN_BROWSER_SECONDS = Bound(300, "seconds", "that a login in the browser may take")
LOGIN_REDIRECT_BYTES = Bound(16 * KIB, "bytes", "of a request to the listener that waits for the browser")
LOGIN_CONNECTIONS = Bound(32, "connections", "to that listener at once; beyond, the one that is open longest is closed")
LOGIN_DEVICE_SECONDS = Bound(1800, "seconds", "for which a device code is polled, whatever its stated life")
LOGIN_POLL_SECONDS = Bound(60, "seconds", "between two questions about a device code, at most")
LOGIN_DESCRIPTORS = Bound(5, "descriptors", "that are read to find out what an origin wants")
TOKEN_RENEWAL_SECONDS = Bound(60, "seconds", "before a token expires, from which on it is renewed")

# --- calling skills --------------------------------------------------------------------------------------
CALL_ANSWER_BYTES = Bound(32 * MIB, "bytes", "of an answer to a call, its output included")
CALL_INPUT_BYTES = Bound(16 * MIB, "bytes", "of a file that is an input; what is larger is passed on by its URL")
CALL_ATTEMPTS = Bound(5, "attempts", "to hand in one call, whatever the descriptor and the server allow")
CALL_SUBMIT_SECONDS = Bound(120, "seconds", "in which another of these attempts may begin")
CALL_ANSWER_SECONDS = Bound(600, "seconds", "for an answer to an invocation, where the descriptor lets it take so long")
CALL_SUBMIT_WAIT_SECONDS = Bound(2, "seconds", "that a server is asked to wait for the end before it answers accepted")
CALL_LONG_POLL_SECONDS = Bound(30, "seconds", "that a server is asked to wait before it tells a status")
CALL_PAUSE_SECONDS = Bound(60, "seconds", "between two questions for a status, whatever a server asks for")
CALL_POLL_FAILURES = Bound(10, "failures", "in a row while polling a status; then polling stops")
CALL_WAIT_SECONDS = Bound(24 * 3600, "seconds", "that an execution is waited for; a descriptor may allow so many")
CALL_LOOKUP_SECONDS = Bound(5, "seconds", "for a document of a LAN provider while another provider is known")
CALL_LAST_LOOKUP_SECONDS = Bound(20, "seconds", "for a document of the last provider, unless the caller gives a time")
CALL_END_SECONDS = Bound(30, "seconds", "beyond the time limit of a skill that a call of it waits for its end")
CALL_TAKE_UP_SECONDS = Bound(900, "seconds", "in which a call whose answer was lost is taken up by the same call")
CALLS_KEPT = Bound(1_000, "calls", "that are remembered, so that they can be asked for by their id")
CALLS_KEPT_SECONDS = Bound(30 * 24 * 3600, "seconds", "that a call is remembered; servers forget them then, too")
CIRCUIT_FAILURES = Bound(5, "failures", "of an origin in a row, before it is left alone")
CIRCUIT_SECONDS = Bound(30, "seconds", "that it is left alone, until one request looks whether it is back")
EXECUTION_ID_BYTES = Bound(256, "bytes", "of an id that a provider gives to an execution; ours have 49")

# --- the server ------------------------------------------------------------------------------------------
SERVER_HEAD_BYTES = Bound(32 * KIB, "bytes", "request line and header fields; browsers send 2 KiB")
SERVER_REQUEST_SECONDS = Bound(30, "seconds", "for a request to arrive; a slow one holds a connection")
SERVER_REQUEST_RATE = Bound(64 * KIB, "bytes a second", "adds a second to the time that a request may take to arrive")
SERVER_IDLE_SECONDS = Bound(15, "seconds", "that a connection is kept without a request")
SERVER_LOADING_SECONDS = Bound(10, "seconds", "that a request waits for the first catalog before it gets a 503")
SERVER_SHUTDOWN_SECONDS = Bound(10, "seconds", "for responses in progress when the server stops")
SERVER_CONNECTIONS = Bound(2_000, "connections", "each costs memory; fewer where the system allows few open files")
SERVER_ADDRESS_CONNECTIONS = Bound(500, "connections", "of one address, or IPv6 /64; at most a quarter of all")
SERVER_LOGGED_PATH = Bound(256, "characters", "of a path in the log; the longest URL has 32 KiB")
SERVER_PIECE_BYTES = Bound(256 * KIB, "bytes", "of a file in memory for one client, however slow it is")
SERVER_REMEMBERED_HEADS = Bound(1_000, "requests", "whose answer is known without parsing")
SERVER_REMEMBERED_HEAD_BYTES = Bound(1 * KIB, "bytes", "of such a request; browsers send some 500")
SERVER_LISTING_CACHE_BYTES = Bound(32 * MIB, "bytes", "of the public indexes; 10,000 skills take 7.5 MiB")
SERVER_PRINCIPAL_INDEXES_BYTES = Bound(128 * MIB, "bytes", "of the indexes of all principals together")

# --- callers of the server ---------------------------------------------------------------------------------
BEARER_TOKEN_BYTES = Bound(16 * KIB, "bytes", "of an access token; common ones have 1 KiB")
TOKEN_LEEWAY_SECONDS = Bound(30, "seconds", "that the clocks of an issuer and a server may differ", "RFC 7519 §4.1.4")
TOKEN_SCOPES = Bound(100, "scopes", "of one access token")
ISSUER_SECONDS = Bound(5, "seconds", "for one answer of an authorization server, while a request waits")
ISSUER_RETRY_SECONDS = Bound(30, "seconds", "between two requests for an issuer's keys, whatever clients send")
JWKS_BYTES = Bound(256 * KIB, "bytes", "a key has 500 bytes, or 4 KiB with its certificates")
JWKS_KEYS = Bound(100, "keys", "of one issuer; common ones have two")
JWKS_FRESH_SECONDS = Bound(600, "seconds", "that an issuer's keys are used before they are asked for again")
JWKS_KEPT_SECONDS = Bound(24 * 3600, "seconds", "that an issuer's last keys are used while it is down")
INTROSPECTION_BYTES = Bound(64 * KIB, "bytes", "of an issuer's answer about one token")
INTROSPECTION_SECONDS = Bound(60, "seconds", "that a good token is not asked about again; so long it outlives its end")
INTROSPECTION_REFUSED_SECONDS = Bound(10, "seconds", "that a refused token is not asked about again")
INTROSPECTIONS_KEPT = Bound(10_000, "tokens", "whose answers are remembered")
INTROSPECTIONS_AT_ONCE = Bound(8, "questions", "to an issuer at one time")
INTROSPECTIONS_WAITING = Bound(64, "questions", "that wait for their turn; further ones are asked to retry")
SIGNATURE_WINDOW_SECONDS = Bound(300, "seconds", "that a signature is good for after its time")
SIGNATURE_AHEAD_SECONDS = Bound(5, "seconds", "that a signature's time may be ahead of the server's clock")
SIGNATURES_KEPT = Bound(20_000, "signatures", "of one key that are remembered, so that none counts twice")
RATE_LIMIT_CALLERS = Bound(50_000, "callers", "whose requests are counted; the longest inactive is dropped first")

# --- what runs skills ------------------------------------------------------------------------------------
UPSTREAM_BYTES = Bound(4 * MIB, "bytes", "of what the API behind a skill answers; it becomes the output")
UPSTREAM_EXCERPT = Bound(500, "characters", "of an API's error that a caller receives")
UPSTREAM_RETRY_SECONDS = Bound(24 * 3600, "seconds", "that an API may ask to be left alone; no execution lasts longer")
FUNCTION_THREADS = Bound(32, "threads", "for functions that are not async; one that never ends keeps its thread")
FUNCTION_MESSAGE = Bound(500, "characters", "of an exception's message that a caller receives")

# --- webhooks --------------------------------------------------------------------------------------------
WEBHOOK_SECONDS = Bound(15, "seconds", "for a receiver to answer; longer work comes after the answer")
WEBHOOK_ANSWER_BYTES = Bound(64 * KIB, "bytes", "of a receiver's answer, which is ignored")
WEBHOOK_BYTES = Bound(256 * KIB, "bytes", "of a payload; a larger output is left out, for the receiver to fetch")
WEBHOOK_CONCURRENCY = Bound(16, "deliveries", "at once; a slow receiver holds one for its time")
WEBHOOK_HOST_CONCURRENCY = Bound(4, "deliveries", "to one host at once; the others of that host wait")
WEBHOOK_TOLERANCE_SECONDS = Bound(300, "seconds", "that a webhook's time may be off", "Standard Webhooks")

# --- the sandbox -----------------------------------------------------------------------------------------
SANDBOX_START_SECONDS = Bound(20, "seconds", "until a sandbox is ready; it takes 0.05 on an idle machine")
SANDBOX_CPU_SECONDS = Bound(60, "seconds", "of processor time of all processes of one execution")
SANDBOX_MEMORY_BYTES = Bound(512 * MIB, "bytes", "of all processes of one execution; Python alone has 10 MiB")
SANDBOX_ADDRESS_BYTES = Bound(1024 * MIB, "bytes", "of addresses of one process; threads reserve more than they use")
SANDBOX_PROCESSES = Bound(64, "processes", "and threads of one execution; a pool of threads has at most 32")
SANDBOX_OPEN_FILES = Bound(256, "files", "and sockets that one process has open; each may hold kernel memory")
SANDBOX_FILE_BYTES = Bound(64 * MIB, "bytes", "of one file that a skill writes")
SANDBOX_WORK_BYTES = Bound(128 * MIB, "bytes", "of all files that a skill writes; they lie in memory")
SANDBOX_SHARED_BYTES = Bound(32 * MIB, "bytes", "of files in /dev/shm, through which processes share memory")
SANDBOX_FILES = Bound(20_000, "files", "and folders that a skill makes; an empty one costs 1 KiB of kernel memory")
SANDBOX_OUTPUT_BYTES = Bound(8 * MIB, "bytes", "of a result as JSON; larger ones belong behind a URL")
SANDBOX_LOG_BYTES = Bound(16 * MIB, "bytes", "that a skill prints")
SANDBOX_LOG_SHOWN_BYTES = Bound(8 * KIB, "bytes", "of the end of what a skill printed that are kept")
SANDBOX_PROXY_HEAD_BYTES = Bound(8 * KIB, "bytes", "of a request to the proxy; a usual one has 100")
SANDBOX_PROXY_HEAD_SECONDS = Bound(10, "seconds", "for that request to arrive")
SANDBOX_PROXY_IDLE_SECONDS = Bound(60, "seconds", "that a connection through the proxy may be silent")
SANDBOX_PROXY_OPEN = Bound(16, "connections", "through the proxy at once; browsers make six to a host")
SANDBOX_PROXY_CONNECTIONS = Bound(1_000, "connections", "through the proxy for one execution")
SANDBOX_PROXY_BYTES = Bound(256 * MIB, "bytes", "through the proxy for one execution, both ways")
UNPACKED_SKILLS = Bound(256, "skills", "that lie unpacked, ready to be run; the longest unused goes first")
UNPACKED_BYTES = Bound(1024 * MIB, "bytes", "of all unpacked skills")
SECRETS_FILE_BYTES = Bound(64 * KIB, "bytes", "a file of secrets is written by hand")
SECRET_BYTES = Bound(8 * KIB, "bytes", "of one secret; a key in PEM has 4 KiB")

# --- JSON-RPC --------------------------------------------------------------------------------------------
RPC_REQUEST_BYTES = Bound(4 * MIB, "bytes", "of a request or batch; a larger blob is sent to /blobs as it is")
RPC_BATCH = Bound(50, "requests", "of one batch; each may be a run of code")
RPC_BATCH_AT_ONCE = Bound(8, "requests", "of one batch that are answered at the same time")
RPC_HELD_BYTES = Bound(128 * MIB, "bytes", "of all requests that are being answered, and of their answers")
RPC_HELD_ADDRESS_BYTES = Bound(48 * MIB, "bytes", "of those of one address; one batch has at most 36 MiB")
RPC_STDIO_AT_ONCE = Bound(32, "requests", "on standard input that are answered at the same time")
RPC_PAGE = Bound(500, "skills", "of one page of list_skills")
RPC_PAGES = Bound(400, "pages", "of one list that is read to its end; 20,000 skills by 50")
RPC_CURSOR_LENGTH = Bound(1024, "characters", "of a cursor; it holds a name and a namespace")
RPC_KIND_LENGTH = Bound(255, "characters", "of a blob's media type")
RPC_FILE_BYTES = Bound(4 * MIB, "bytes", "of a file that is read in an answer; a larger one is downloaded")
RPC_ANSWER_BYTES = Bound(32 * MIB, "bytes", "of an answer, a whole batch included")

# --- neighbours ------------------------------------------------------------------------------------------
MARKETPLACE_BYTES = Bound(4 * MIB, "bytes", "of a marketplace.json; the largest known one has 130 KiB")
MARKETPLACE_PLUGINS = Bound(2_000, "plugins", "of a marketplace; the largest known one has 200")
MARKETPLACE_SKILLS = Bound(5_000, "skills", "that are taken from one marketplace")
CATALOG_SEARCH_BYTES = Bound(16 * KIB, "bytes", "of a POST /search; a query has at most 1,024 characters")

# --- searching -------------------------------------------------------------------------------------------
SEARCH_HITS = Bound(100, "skills", "on one page of hits")
SEARCH_TEXT_LENGTH = Bound(1024, "characters", "of a query; as long as a description")
SEARCH_WORDS = Bound(64, "words", "of a query that are looked for; each costs a look into the index")
SEARCH_TAGS = Bound(24, "tags", "of one skill that are counted")
SEARCH_FACET_VALUES = Bound(50, "values", "of one facet that are returned, the most frequent ones")
SEARCH_FILES_LENGTH = Bound(4096, "characters", "of a skill's file names that are searched")
SEARCH_CACHE_BYTES = Bound(1 * MIB, "bytes", "of answers to searches that were asked for lately")

# --- the pages -------------------------------------------------------------------------------------------
PAGE_SKILLS = Bound(50, "skills", "on one page of the list; keeps its HTML below 60 kB")
PAGE_MARKDOWN = Bound(128 * KIB, "characters", "rendered, a second at worst; longer texts are shown as written")
PAGE_PARAGRAPH = Bound(4 * KIB, "characters", "of one paragraph that are read for links; hostile ones cost squares")
PAGE_FILE_BYTES = Bound(512 * KIB, "bytes", "of a file that are shown; a larger one can be downloaded")
PAGE_FILE_LINES = Bound(10_000, "lines", "of a file that are shown; each is an element of the page")
PAGE_VERSIONS = Bound(50, "versions", "on one page of a package")
PAGE_DIFF_BYTES = Bound(1 * MIB, "bytes", "of changed files that are compared on one page")
PAGE_DIFF_STEPS = Bound(1_000_000, "steps", "to compare the lines of all of them: a third of a second")
PAGE_DIFF_LINES = Bound(5_000, "lines", "of the differences between two versions on one page")
PAGE_TEXT_CACHE_BYTES = Bound(2 * MIB, "bytes", "of rendered texts that were asked for lately")

# --- executions ------------------------------------------------------------------------------------------
EXECUTION_REQUEST_BYTES = Bound(1 * MIB, "bytes", "of an invocation; what is larger is passed on by its URL")
EXECUTION_BODIES_BYTES = Bound(64 * MIB, "bytes", "of all invocations that are being read or accepted at once")
EXECUTION_BODIES_ADDRESS_BYTES = Bound(8 * MIB, "bytes", "of those from one address; of IPv6 from one /64")
EXECUTION_SMALL_BODY_BYTES = Bound(16 * KIB, "bytes", "of an invocation that is always read, however many are")
EXECUTION_OUTPUT_BYTES = Bound(16 * MIB, "bytes", "of an output, as JSON")
EXECUTION_ROW_OUTPUT_BYTES = Bound(256 * KIB, "bytes", "of an output in the ledger; larger ones are blobs beside it")
EXECUTION_SECONDS = Bound(3600, "seconds", "that an execution may take, unless the operator sets another limit")
EXECUTION_TASK_SECONDS = Bound(7 * 24 * 3600, "seconds", "that a task for a person may take; the same")
EXECUTION_START_SECONDS = Bound(1, "seconds", "of grace for an attempt's start, not counted in its time")
EXECUTION_END_SECONDS = Bound(2, "seconds", "after its deadline in which an attempt ends and its log is stored")
EXECUTION_WAITING = Bound(10_000, "executions", "of one caller that wait or run; further ones are asked to retry")
EXECUTION_WAITING_IN_ALL = Bound(1_000_000, "executions", "that wait or run; each has about 2 KiB in the ledger")
EXECUTION_LOSSES = Bound(3, "workers", "that one execution may lose; it is not begun again after the third")
EXECUTIONS_LOOKED_AT = Bound(20_000, "executions", "that one page of a search without an index looks at")
EXECUTION_WAIT_SECONDS = Bound(60, "seconds", "that one question about an execution waits for its answer")
EXECUTION_FOLLOWERS = Bound(1_000, "requests", "that wait for executions at once; further ones are answered now")
EXECUTION_FOLLOWERS_CALLER = Bound(125, "requests", "of one caller that wait for executions at once; the same")
IDEMPOTENCY_KEY_LENGTH = Bound(255, "characters", "of an Idempotency-Key; a UUID has 36")
EXECUTION_OUTPUT_KEPT_SECONDS = Bound(7 * 24 * 3600, "seconds", "that outputs are kept; the operator's to change")
EXECUTION_KEPT_SECONDS = Bound(30 * 24 * 3600, "seconds", "that executions are kept; the same")
TASK_REASON_LENGTH = Bound(2_000, "characters", "of the reason why a person declines a task")
FORM_FIELDS = Bound(100, "fields", "of one form; an output with more is typed as JSON")
FORM_DEPTH = Bound(4, "levels", "of objects whose properties are fields of a form; deeper ones are typed as JSON")

# --- runs and their blobs --------------------------------------------------------------------------------
RUN_CODE_BYTES = Bound(256 * KIB, "bytes", "of code that a caller brings, kept in the ledger; its inputs are in blobs")
RUN_INPUT_BLOBS = Bound(64, "blobs", "that one run is given; each is a mount of its sandbox")
RUN_MOUNTS = Bound(16, "skills", "whose files one run can read; the same")
RUN_OUTPUT_BLOBS = Bound(64, "files", "that one run hands out")
RUN_OUTPUT_BYTES = Bound(64 * MIB, "bytes", "of all files that one run hands out; half of what it may write")
BLOB_BYTES = Bound(32 * MIB, "bytes", "of one blob; the operator's to change")
BLOBS_OWNER_BYTES = Bound(256 * MIB, "bytes", "of all blobs of one caller; the operator's to change")
BLOBS_BYTES = Bound(8 * 1024 * MIB, "bytes", "of all blobs of all callers")
BLOB_LEAST_BYTES = Bound(64 * KIB, "bytes", "that a smaller blob counts as; so many small ones have a bound, too")
BLOB_SECONDS = Bound(24 * 3600, "seconds", "that a blob is kept after its last use; the operator's to change")
BLOB_SAMPLE_BYTES = Bound(4 * KIB, "bytes", "of a sample of a blob, unless more is asked for")
BLOB_UPLOADS = Bound(64, "blobs", "that are received at once")
BLOB_UPLOADS_OWNER = Bound(8, "blobs", "that are received at once from one caller")

# --- the registry ----------------------------------------------------------------------------------------
REGISTRY_ROW_BYTES = Bound(1 * MIB, "bytes", "of an artifact in the database; larger ones are files beside it")
REGISTRY_PACKAGE_BYTES = Bound(
    16 * MIB, "bytes", "of the lists of files of all versions of a package, which its pages read"
)
REGISTRY_PAGE = Bound(100, "rows", "of a list in one answer")
REGISTRY_REQUEST_BYTES = Bound(16 * KIB, "bytes", "of a JSON request to the registry")
REGISTRY_BODIES_BYTES = Bound(128 * MIB, "bytes", "of all archives that are received at once")
REGISTRY_BODIES_ADDRESS_BYTES = Bound(64 * MIB, "bytes", "of those from one address; of IPv6 from one /64")
REGISTRY_FILE_LIST_BYTES = Bound(1 * MIB, "bytes", "of the list of files in a publication over ClawHub's API")
REGISTRY_UPLOADED_SECONDS = Bound(900, "seconds", "for which a file that was sent by itself waits to be published")
REGISTRY_ZIPS = Bound(10_000, "archives", "that the registry made as .zip of others, and knows the digest of")
REGISTRY_APM_VERSIONS = Bound(1_000, "versions", "of a package in APM's API, which lists the digest of a .zip of each")
REGISTRY_NAMES = Bound(100, "names", "of namespaces that one account may take, renaming included; operators any number")
REGISTRY_TOKENS = Bound(1_000, "tokens", "of one account that may be valid before a further one; people still sign in")
REGISTRY_UPLOADS = Bound(16, "uploads", "that one account may have begun and not finished")
REGISTRY_UPLOADS_BYTES = Bound(
    8 * 1024 * MIB, "bytes", "of the unfinished uploads of all accounts; a full disk stops all"
)
REGISTRY_UPLOADS_FULL_SECONDS = Bound(300, "seconds", "after which a client may ask for room for an upload again")
REGISTRY_UPLOAD_SECONDS = Bound(24 * 3600, "seconds", "that an upload is kept after its last byte")
EXPORT_LINE_BYTES = Bound(16 * MIB, "bytes", "of one row of an export of a registry")
REGISTRY_UNOWNED_SECONDS = Bound(3600, "seconds", "that a large artifact without a version is kept: one may come")
REGISTRY_WITHDRAWN_SECONDS = Bound(10, "seconds", "that a quarantine waits until no path serves the package")
REGISTRY_STALE_SECONDS = Bound(30, "seconds", "that a server may be behind the registry before `/readyz` says so")
REGISTRY_READING = Bound(2, "archives", "that are unpacked and checked at once; each takes up to 200 MiB")
REGISTRY_COUNTING = Bound(1_000, "downloads", "that are being counted at once; further ones are not counted")
REGISTRY_COUNTED = Bound(10_000, "downloads", "counted lately; the same again needs no write")
REGISTRY_DOWNLOAD_DAYS = Bound(90, "days", "whose downloads a package shows")
REGISTRY_PROOF_BYTES = Bound(1 * KIB, "bytes", "of the file that proves a namespace")
REGISTRY_PROOF_SECONDS = Bound(10, "seconds", "for the record or the file that proves a namespace")
DEVICE_LOGIN_SECONDS = Bound(600, "seconds", "for which the codes of a login on another device are good")
DEVICE_POLL_SECONDS = Bound(5, "seconds", "between two polls of such a login; a poll too soon adds as many")
DEVICE_LOGINS = Bound(10_000, "logins", "on another device that wait at once; further ones are refused")
DEVICE_LOGIN_CLIENT = Bound(64, "characters", "of the name of the program that asks for one")
TOKEN_USED_SECONDS = Bound(300, "seconds", "until a token that is used is written down as used again")
READINESS_SECONDS = Bound(2, "seconds", "for the database to answer the check of `/readyz`")
SERVER_REVISION_SECONDS = Bound(5, "seconds", "that a request waits for a change that another server has acknowledged")
REGISTRY_STATISTICS_SECONDS = Bound(10, "seconds", "for which the numbers of a registry are kept")

# --- PostgreSQL ------------------------------------------------------------------------------------------
POSTGRES_CONNECTIONS = Bound(
    16, "connections", "of one server at once; three servers stay below PostgreSQL's usual 100"
)
POSTGRES_CONNECT_SECONDS = Bound(2, "seconds", "for a connection, of the pool or a new one to one host")
POSTGRES_STATEMENT_SECONDS = Bound(4, "seconds", "for each statement, so that a stopped database is reported in time")
POSTGRES_IDLE_SECONDS = Bound(5, "seconds", "until the database ends a transaction whose server is cut off or stopped")

# --- the console -----------------------------------------------------------------------------------------
PAGE_INTRO = Bound(8 * KIB, "characters", "of the introduction of a site, above its list of skills")
LOGO_BYTES = Bound(256 * KIB, "bytes", "of the logo of a site, which each new visitor loads")
CONSOLE_EXECUTIONS = Bound(50, "executions", "on one page of the list; keeps its HTML below 60 kB")
CONSOLE_TASKS = Bound(200, "tasks", "on the page of the inbox; of more, the most urgent are shown")
CONSOLE_TASKS_SEARCHED = Bound(2_000, "tasks", "that a filter of the inbox looks at, the most urgent first")
CONSOLE_JSON_BYTES = Bound(128 * KIB, "bytes", "of inputs or an output that are shown; a larger one can be downloaded")
CONSOLE_FORM_BYTES = Bound(1 * MIB, "bytes", "of a form that is sent; the answers to a task are its largest")
CONSOLE_FORM_FIELDS = Bound(1_000, "fields", "of a form that is sent; a choice of several texts sends each as one")
CONSOLE_SESSION_SECONDS = Bound(12 * 3600, "seconds", "until the next sign-in; a working day")
CONSOLE_SIGN_IN_SECONDS = Bound(600, "seconds", "that signing in at an identity provider may take")
CONSOLE_TOKENS = Bound(200, "tokens", "on the page of an account; of more, the newest are shown")
CONSOLE_SESSIONS_ENDED = Bound(10_000, "sessions", "that were ended by signing out, remembered until they are over")
CONSOLE_STREAMS = Bound(200, "streams", "of live pages at once; further pages do not update until one is closed")
CONSOLE_STREAM_SECONDS = Bound(1800, "seconds", "that one stream lasts; the page begins another")
CONSOLE_LAN_ROWS = Bound(50, "skills", "on one page of the table of the local network; keeps its HTML below 60 kB")
CONSOLE_LAN_AGENTS = Bound(12, "agents", "that are drawn on its map; of more, those in trouble first")
CONSOLE_LAN_SKILLS = Bound(48, "skills", "that are drawn, at most 8 of an agent; the others are counted beside it")
CONSOLE_LAN_SCENES = Bound(8, "scenes", "that are drawn on the map; the list beside it has more")
CONSOLE_LAN_LISTED_SCENES = Bound(50, "scenes", "in the list below the map; of more, the first by name")

# --- the local network -----------------------------------------------------------------------------------
DATAGRAM_BYTES = Bound(1_200, "bytes", "of a datagram; a lost fragment loses all of a larger one", "SDP 5.2")
LAN_IDENTIFIER_LENGTH = Bound(128, "characters", "of an agent, skill, capability or scene; names of ours have 64")
LAN_LIST_ENTRIES = Bound(64, "entries", "in one list of a datagram")
LAN_CERTIFICATE_BYTES = Bound(700, "bytes", "of a leaf, as DER; ours have 470, and a datagram has room for little more")
LAN_REVOCATIONS_BYTES = Bound(1024 * 1024, "bytes", "of the lists of revoked certificates; an entry of ours has 170")
LAN_REVOKED = Bound(4_096, "certificates", "on a list that we sign, the newest; an agent reads 1 MiB of it")
LAN_LEARNED_AUTHORITIES = Bound(16, "authorities", "that agents learn of beside those of their settings")
LAN_TRUST_FILE_BYTES = Bound(256 * 1024, "bytes", "of a file with certificates; one has less than 1 KiB")
LAN_REQUEST_BYTES = Bound(4096, "bytes", "of a request for a certificate; ours have 600")
LAN_RENEWAL_BYTES = Bound(8192, "bytes", "of what is asked and answered to renew a certificate")
LAN_SECRET_BYTES = Bound(4096, "bytes", "of a line by which a key is asked for, or handed out, over TLS")
LAN_SECRET_CONNECTIONS = Bound(64, "connections", "at once, on which keys are handed out")
LAN_SECRET_PER_HOST = Bound(8, "connections", "of them, of one host")
LAN_SECRET_KEYS = Bound(4_096, "keys", "that are made within an hour; one that is good for long is handed out again")
LAN_SECRET_KEYS_PER_HOST = Bound(64, "keys", "of them, for one host, whatever its agents call themselves")
LAN_SECRET_SECONDS = Bound(10, "seconds", "for TLS, the question and the answer together")
LAN_HEALTH_CHECKS = Bound(4, "checks", "of skills of folders at once; each may be a sandbox, beside those of calls")
LAN_HEALTH_SLOW_CHECKS = Bound(2, "checks", "beside them, of those that were slow the last time")
LAN_HEALTH_BYTES = Bound(64 * KIB, "bytes", "of what an API answers that is asked how it is; a word is enough")
LAN_HEALTH_OUTPUT_BYTES = Bound(1 * KIB, "bytes", "of a health function's result")
LAN_HOST_LENGTH = Bound(253, "characters", "of a host's name, as in DNS")
LAN_SKILLS = Bound(20_000, "skills", "that are listed; each costs 2 KiB, and one sender may announce many")
LAN_HINTS = Bound(4_096, "skills", "known from mDNS alone; each is probed every 30 s, and any host can invent them")
LAN_SKILLS_PER_AGENT = Bound(1_000, "skills", "of one agent")
LAN_SKILLS_PER_HOST = Bound(5_000, "skills", "of one uncertified host; a host can invent many agents")
LAN_STREAMS = Bound(100_000, "timestamps", "that are remembered against replay, one for each skill and message type")
LAN_SOURCES = Bound(4_096, "hosts", "whose datagrams are counted, each on its own")
LAN_AGENTS = Bound(4_096, "agents", "whose keys are remembered, and addresses that are proven")
LAN_STRANGERS_PER_HOST = Bound(256, "agents", "of them, of one uncertified host; a host can invent many")
LAN_CHALLENGES = Bound(2_048, "challenges", "under way at once; forged ones, 20,000 a second, push one out in 100 ms")
LAN_HELD_DATAGRAMS = Bound(4, "datagrams", "of one address that wait until it has proven itself")
LAN_SENT = Bound(512, "datagrams", "that we sent lately, for which we answer a challenge")
LAN_MEMBERS = Bound(256, "agents", "notified of changes in one scene; each change is some datagrams to each")
LAN_ANSWER_SKILLS = Bound(1_000, "skills", "in the answer to one discovery, 70 datagrams; the rest is omitted")
LAN_ANSWERS_PER_HOST_BYTES = Bound(96 * KIB, "bytes", "of answers to one unproven host of our own network in 10 s")
LAN_ANSWERS_BYTES = Bound(MIB, "bytes", "of answers to all of them in 10 s; their addresses can be forged")
LAN_FOUND = Bound(10_000, "skills", "that are collected as answers to one discovery")
LAN_CACHE_BYTES = Bound(16 * MIB, "bytes", "of the file of found skills; 20,000 skills, the most, have 14 MiB")
LAN_SUSPECT_PINGS = Bound(500, "datagrams", "a second that ask silent skills whether they are there")
LAN_ANSWERERS = Bound(256, "sources", "of answers to one discovery that are challenged")
LAN_ANSWERERS_PER_HOST = Bound(16, "sources", "of them, of one host; each agent answers from a port of its own")
LAN_FOUND_PER_HOST = Bound(2_000, "skills", "of the collected ones, of one uncertified host")
LAN_REGISTRIES = Bound(64, "agents", "that are waited for to acknowledge; more than one network has")
LAN_REFUSALS = Bound(4_096, "refusals", "whose end is reported, one for each host and skill of ours")
LAN_TXT_BYTES = Bound(400, "bytes", "of a TXT record that we publish; three of them share a packet")
LAN_MDNS_SKILLS = Bound(200, "skills", "of one agent that are published by mDNS; the others by multicast alone")
LAN_MDNS_INSTANCES = Bound(4_096, "instances", "followed by mDNS; the library keeps 10,000 records, three of each")
LAN_MDNS_RESOLVING = Bound(16, "instances", "resolved at once, when only their names are known")
REQUIREMENTS = Bound(50, "requirements", "of one skill")
DEPENDENCY_STEPS = Bound(2_000, "steps", "of the search for versions that fit together")
DEPENDENCY_SECONDS = Bound(120, "seconds", "for the requests of that search together")
INDEX_NAMES = Bound(1_000, "names", "of capabilities or scenes of one skill in an index; longer lists are ignored")
LAN_DETAILS_BYTES = Bound(1 << 20, "bytes", "of what an agent tells over HTTP where mDNS has cut its lists")
LAN_DETAILS_NAMES = Bound(1_000, "names", "of capabilities or scenes of one skill that are read there")
LAN_DETAILS_SOURCES = Bound(64, "endpoints", "that wait to be asked for details")
LAN_DETAILS_PER_HOST = Bound(4, "endpoints", "of one host that are asked in a minute; mDNS may lead to any host")
LAN_DETAILS_PER_MINUTE = Bound(32, "endpoints", "that are asked for details in a minute, of all hosts together")
LAN_DETAILS_AT_ONCE = Bound(4, "agents", "that are asked for details at once")
LAN_MDNS_SECONDS = Bound(3, "seconds", "that such an instance may take; a publisher repeats itself within one")

# --- the DHT ---------------------------------------------------------------------------------------------
DHT_RECORD_BYTES = Bound(1_100, "bytes", "of a record with its certificate, so that one datagram holds it")
DHT_JUDGEMENTS = Bound(1_024, "certificates", "whose judgements are kept, 5 KiB each; a new one costs 0.3 ms")
DHT_SIGNERS_PER_KEY = Bound(16, "signers", "whose records one node keeps under a key; strangers can make many")
DHT_RECORDS_PER_SIGNER = Bound(64, "records", "of one signer under a key, as of a server with many skills")
DHT_STORED_BYTES = Bound(4 * MIB, "bytes", "of memory for the records of others that one node keeps, some 2,500")
DHT_PROVEN = Bound(4_096, "nodes", "whose proofs and round trips are remembered, 1 KiB each")
DHT_HELLOS = Bound(256, "nodes", "that are asked for their proof at once because others named them")
DHT_LOST = Bound(64, "nodes", "that left and are tried again, one a second")
DHT_WALK_NODES = Bound(128, "nodes", "that one walk follows; liars can name any number")
DHT_RATE = Bound(1_000, "requests", "a second that are read of one source; each costs 40 microseconds")
DHT_BURST = Bound(2_000, "requests", "at once of one source; a key with all its records takes half of them to read")
DHT_OFFERS = Bound(256, "skills", "that a node announces; each takes up to one message a second")
DHT_VERIFIED = Bound(1_024, "records", "that are not verified again when the same bytes come again, 2 KiB each")

# --- MCP -------------------------------------------------------------------------------------------------
MCP_SKILL_FILES = Bound(512, "files", "of a skill, for every host; larger ones are no MCP skills", "MCP Skills Limits")
MCP_SKILL_BYTES = Bound(16 * MIB, "bytes", "of all files of such a skill together", "MCP Skills Limits")
MCP_PAGE = Bound(50, "skills", "on one page of a list; each may name 512 files")
MCP_FRESH_SECONDS = Bound(60, "seconds", "that a client may keep an answer, as with the index over HTTP")
MCP_WAIT_SECONDS = Bound(50, "seconds", "that a tool waits for an execution; many clients give up after 60")
MCP_FILE_BYTES = Bound(1 * MIB, "bytes", "of a file that a tool gives; a larger one is read as a resource")
MCP_BLOB_BYTES = Bound(4 * MIB, "bytes", "of a blob that is read as a resource; /blobs gives a larger one in pieces")
MCP_TEXT_LENGTH = Bound(64 * KIB, "characters", "of a text that a tool gives at once; the rest is read on")
MCP_RESULT_LENGTH = Bound(
    256 * KIB, "characters", "of a result that is given as text, too; the SDK reads 1 MiB an event"
)
MCP_EVENT_BYTES = Bound(1_000_000, "bytes", "of a result in a stream; the SDK reads 1 MiB an event")
MCP_PING_SECONDS = Bound(14, "seconds", "after which an answer may be a stream; the SDK's first ping is at 15")
MCP_RESULT_SHOWN_LENGTH = Bound(
    4 * KIB, "characters", "of a longer result that are given as text; a model reads no more"
)
MCP_PROGRESS_SECONDS = Bound(2, "seconds", "between two notifications of progress, to a client that asked for them")
MCP_PINS = Bound(64, "skills", "that are tools of their own; models choose badly among more")
