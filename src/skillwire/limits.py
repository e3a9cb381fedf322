"""Every bound that a stranger's input meets: value, unit, reason and source.

A bound is an ``int`` or ``float`` that also says what it measures and why it stands where it stands, so
that ``limits.INDEX_BYTES`` reads like a number where it is used and like a sentence in the docs.
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
ARCHIVE_ENTRIES = Bound(2_000, "entries", "twice what we publish")
ARCHIVE_PATH_BYTES = Bound(512, "bytes", "well under PATH_MAX with any destination in front")
ARCHIVE_COMPONENT_BYTES = Bound(255, "bytes", "NAME_MAX of common file systems")
ARCHIVE_DEPTH = Bound(32, "levels", "no skill nests deeper than six")
ARCHIVE_RATIO = Bound(200, "times", "text compresses 20 times, a bomb 1,000 times", "ASD Archive Safety")
ARCHIVE_RATIO_FLOOR_BYTES = Bound(4 * MIB, "bytes", "below it a high ratio harms nobody")
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
HTTP_ADDRESSES = Bound(4, "addresses", "of one host that are tried; who answers for a name decides how many it has")
HTTP_CONNECT_SECONDS = Bound(10, "seconds", "to be connected, TLS included")
HTTP_REQUEST_SECONDS = Bound(60, "seconds", "for one whole request, body included")
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

# --- logging in ------------------------------------------------------------------------------------------
OAUTH_BYTES = Bound(64 * KIB, "bytes", "of an authorization server's answer; tokens and metadata have 2 to 8 KiB")
OAUTH_TOKEN_LENGTH = Bound(16 * KIB, "characters", "of a token; more than fits into a header field of most servers")
OAUTH_TOKEN_SECONDS = Bound(10 * 365 * 24 * 3600, "seconds", "that a token may be said to last")
LOGIN_BROWSER_SECONDS = Bound(300, "seconds", "that a login in the browser may take")
LOGIN_REDIRECT_BYTES = Bound(16 * KIB, "bytes", "of a request to the listener that waits for the browser")
LOGIN_CONNECTIONS = Bound(32, "connections", "to that listener at once; beyond, the one that is open longest is closed")
LOGIN_DEVICE_SECONDS = Bound(1800, "seconds", "that a device code is asked about, however long it is said to last")
LOGIN_POLL_SECONDS = Bound(60, "seconds", "between two questions about a device code, at most")
LOGIN_DESCRIPTORS = Bound(5, "descriptors", "that are read to find out what an origin wants")
TOKEN_RENEWAL_SECONDS = Bound(60, "seconds", "before a token expires, from which on it is renewed")

# --- the server ------------------------------------------------------------------------------------------
SERVER_HEAD_BYTES = Bound(32 * KIB, "bytes", "request line and header fields; browsers send 2 KiB")
SERVER_REQUEST_SECONDS = Bound(30, "seconds", "for a request to arrive; a slow one holds a connection")
SERVER_IDLE_SECONDS = Bound(15, "seconds", "that a connection is kept without a request")
SERVER_LOADING_SECONDS = Bound(10, "seconds", "that a request waits for the first catalog before it gets a 503")
SERVER_SHUTDOWN_SECONDS = Bound(10, "seconds", "for answers under way when the server is told to stop")
SERVER_CONNECTIONS = Bound(2_000, "connections", "each costs memory; half of the usual 4,096 open files")
SERVER_PIECE_BYTES = Bound(256 * KIB, "bytes", "of a file in memory for one client, however slow it is")
SERVER_REMEMBERED_HEADS = Bound(1_000, "requests", "whose answer is known without parsing")
SERVER_REMEMBERED_HEAD_BYTES = Bound(1 * KIB, "bytes", "of such a request; browsers send some 500")
SERVER_BLOB_CACHE_BYTES = Bound(4 * MIB, "bytes", "of files and artifacts that were asked for lately")
SERVER_LISTING_CACHE_BYTES = Bound(8 * MIB, "bytes", "of the indexes of one audience that were asked for lately")

# --- who asks the server ---------------------------------------------------------------------------------
BEARER_TOKEN_BYTES = Bound(16 * KIB, "bytes", "of an access token; common ones have 1 KiB")
TOKEN_LEEWAY_SECONDS = Bound(30, "seconds", "that the clocks of an issuer and a server may differ", "RFC 7519 §4.1.4")
TOKEN_SCOPES = Bound(100, "scopes", "of one access token")
ISSUER_SECONDS = Bound(5, "seconds", "for one answer of an authorization server; somebody waits for it")
ISSUER_RETRY_SECONDS = Bound(30, "seconds", "between two questions for an issuer's keys, whatever strangers send")
JWKS_BYTES = Bound(256 * KIB, "bytes", "a key has 500 bytes, or 4 KiB with its certificates")
JWKS_KEYS = Bound(100, "keys", "of one issuer; common ones have two")
JWKS_FRESH_SECONDS = Bound(600, "seconds", "that an issuer's keys are used before they are asked for again")
JWKS_KEPT_SECONDS = Bound(24 * 3600, "seconds", "that an issuer's last keys are used while it is down")
INTROSPECTION_BYTES = Bound(64 * KIB, "bytes", "of what an issuer says about one token")
INTROSPECTION_SECONDS = Bound(60, "seconds", "that a good token is not asked about again; so long it outlives its end")
INTROSPECTION_REFUSED_SECONDS = Bound(10, "seconds", "that a refused token is not asked about again")
INTROSPECTIONS_KEPT = Bound(10_000, "tokens", "whose answers are remembered")
INTROSPECTIONS_AT_ONCE = Bound(8, "questions", "to an issuer at one time")
INTROSPECTIONS_WAITING = Bound(64, "questions", "that wait for their turn; further ones are told to come back")
SIGNATURE_WINDOW_SECONDS = Bound(300, "seconds", "that a signature is good for after its time")
SIGNATURE_AHEAD_SECONDS = Bound(5, "seconds", "that a signature's time may be ahead of the server's clock")
SIGNATURES_KEPT = Bound(20_000, "signatures", "of one key that are remembered, so that none counts twice")
RATE_LIMIT_CALLERS = Bound(50_000, "callers", "whose requests are counted; the longest silent is forgotten first")

# --- searching -------------------------------------------------------------------------------------------
SEARCH_HITS = Bound(100, "skills", "on one page of hits")
SEARCH_TEXT_LENGTH = Bound(1024, "characters", "of a query; as long as a description")
SEARCH_WORDS = Bound(64, "words", "of a query that are looked for; each costs a look into the index")
SEARCH_TAGS = Bound(24, "tags", "of one skill that are counted")
SEARCH_FACET_VALUES = Bound(50, "values", "of one facet that are told, the most frequent ones")
SEARCH_FILES_LENGTH = Bound(4096, "characters", "of a skill's file names that are searched")
SEARCH_CACHE_BYTES = Bound(1 * MIB, "bytes", "of answers to searches that were asked for lately")

# --- the pages -------------------------------------------------------------------------------------------
PAGE_SKILLS = Bound(50, "skills", "on one page of the list; keeps its HTML below 60 kB")
PAGE_MARKDOWN = Bound(128 * KIB, "characters", "rendered, a second at worst; longer texts are shown as written")
PAGE_PARAGRAPH = Bound(4 * KIB, "characters", "of one paragraph that are read for links; hostile ones cost squares")
PAGE_FILE_BYTES = Bound(512 * KIB, "bytes", "of a file that are shown; a larger one can be downloaded")
PAGE_FILE_LINES = Bound(10_000, "lines", "of a file that are shown; each is an element of the page")
PAGE_TEXT_CACHE_BYTES = Bound(2 * MIB, "bytes", "of rendered texts that were asked for lately")
