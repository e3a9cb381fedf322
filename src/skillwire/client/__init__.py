"""The SDK's face: :class:`Client` and :class:`AsyncClient`.

Both offer the same verbs over the same flows (:mod:`skillwire.client.session`); they differ only in how a step is
done (:mod:`skillwire.client.runner`), and a test compares their signatures. Loading is progressive: an index gives
names and descriptions, ``body()`` the instructions of one skill, ``open()`` one of its files. An artifact is fetched
once, when the first of its files is asked for::

    with Client() as client:
        for skill in client.index("example.com"):
            print(skill.name, skill.description)
        print(client.show("example.com/code-review").body())
        client.add("example.com/code-review", consent=True)

The command line imports :mod:`skillwire.client.sync` alone.
"""
