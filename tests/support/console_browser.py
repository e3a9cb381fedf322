"""A browser over ASGI: it keeps cookies, and sends forms."""

from urllib.parse import urlencode

from tests.support.publishing import Asgi

HTML = {"accept": "text/html", "host": "skills.example.com"}
OURS = {"origin": "http://skills.example.com", "content-type": "application/x-www-form-urlencoded"}


class Browser(Asgi):
    """Keeps cookies, and sends forms."""

    def __init__(self, application, root_path=""):
        super().__init__(application, root_path)
        self.cookies = {}
        self.worker = ""  # what the ledger calls whoever is signed in

    async def get(self, target, fields=None):
        return self._keep(await self.request(target, self._fields(fields)))

    async def post(self, target, form, fields=None):
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return self._keep(
            await self.request(target, self._fields({**OURS, **(fields or {})}), method="POST", body=body)
        )

    async def sign_in(self, key, following=""):
        return await self.post("/login", {"key": key, "next": following})

    async def token(self, target="/login"):
        """Return what the forms of this session carry."""
        page = (await self.get(target)).body.decode()
        return page.partition('name="token" value="')[2].partition('"')[0]

    async def act(self, target, **form):
        return await self.post(target, {"token": await self.token(), **form})

    def _fields(self, fields):
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**HTML, **({"cookie": cookies} if cookies else {}), **(fields or {})}

    def _keep(self, answer):
        for cookie in answer.fields.get("set-cookie", "").splitlines():
            name, _, rest = cookie.partition("=")
            self.cookies[name] = rest.partition(";")[0]
            if not self.cookies[name]:
                del self.cookies[name]
        return answer
