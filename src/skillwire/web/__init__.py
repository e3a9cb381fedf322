"""The pages for people: a list to search, a page for each skill, a page for each of its files.

Each page is made on the server from the same snapshot that the protocols read, so it shows what an agent would
get and nothing else. A page is whole as it arrives: it reads, searches and filters without a script, and one
small script only saves the wait between keystrokes. No page holds inline script or style, so the policy that goes
with it (:data:`skillwire.web.assets.PAGE_FIELDS`) allows none.

Everything that a skill says is hostile here: its text passes the templates' escaping and
:func:`skillwire.trust.hidden_text.neutralise`, its Markdown a sanitiser as well, and its links are rewritten or
dropped.
"""
