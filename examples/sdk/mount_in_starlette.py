"""Serve skills below a path of a Starlette application: python mount_in_starlette.py"""

import contextlib
import socket

import skillwire
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

publisher = skillwire.Publisher("example-corp")


@publisher.skill
def greet(name: str) -> str:
    """Greet a person. Use when a person is to be greeted by name."""
    return f"Hello, {name}!"


with socket.create_server(("127.0.0.1", 0)) as listener:
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/skills-here"
    skills = publisher.app(base_url=address, access_log=False)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        await skills.startup()
        yield
        await skills.shutdown()

    home = Route("/", lambda request: PlainTextResponse("the application's own page"))
    application = Starlette(routes=[home, Mount("/skills-here", skills)], lifespan=lifespan)
    print(address, flush=True)
    uvicorn.Server(uvicorn.Config(application, log_level="warning")).run(sockets=[listener])
