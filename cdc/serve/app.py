"""The web application: its routes, over what the watch has published."""

from dataclasses import dataclass

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from cdc.serve.bundle import STATIC, bundle_script, bundle_style
from cdc.serve.guard import Door, Guard, refuse
from cdc.serve.page import Page
from cdc.serve.publisher import Publisher, format_now
from cdc.serve.streams import MOST_STREAMS, stream_events


class Files(StaticFiles):
    """Our own files: a browser asks whether one has changed."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "no-cache"
        return response


@dataclass(frozen=True, slots=True)
class Site:
    """What the routes answer with."""

    publisher: Publisher
    door: Door
    page: Page

    async def show_page(self, request: Request) -> Response:
        if not self.door.may_read(request):
            return HTMLResponse(self.page.render_door(), 401)
        published = self.publisher.current
        return HTMLResponse(self.page.render(published, self.publisher.now(), may_act=self.door.may_act(request)))

    async def send_document(self, request: Request) -> Response:
        published = self.publisher.current
        if published is None:
            return refuse(503, "the first look at the pipeline is under way")
        headers = {"X-Cdc-Seen": published.id, "X-Cdc-Now": format_now(self.publisher.now()), "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(published.json, headers=headers, media_type="application/json")
        return Response(
            published.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type="application/json"
        )

    async def send_events(self, request: Request) -> Response:
        if self.publisher.streams >= MOST_STREAMS:
            return refuse(503, f"{MOST_STREAMS} pages are open already")
        seen = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return StreamingResponse(stream_events(self.publisher, seen), media_type="text/event-stream")

    async def open_session(self, request: Request) -> Response:
        """Exchange the token for the cookie."""
        token = self.door.token
        try:
            given = msgspec.json.decode(await request.body(), type=dict[str, str]).get("token", "")
        except msgspec.DecodeError:
            given = ""
        if token is None or not token.is_given_by(given):
            return refuse(
                403, "that is not the token of this server; each start without CDC_SERVE_TOKEN makes a new one"
            )
        response = JSONResponse({"may_act": self.door.acts})
        response.set_cookie(self.door.cookie_name, token.cookie, httponly=True, samesite="strict", path="/")
        return response


def build_app(site: Site, *more: BaseRoute) -> Starlette:
    """The application; `more` are the routes of what only a pipeline has."""
    routes = [
        Route("/", site.show_page),
        Route("/status.json", site.send_document),
        Route("/events", site.send_events),
        Route("/session", site.open_session, methods=["POST"]),
        *more,
        *(file.route() for file in (bundle_script(), bundle_style())),
        Mount("/static", Files(directory=STATIC)),
    ]
    return Starlette(
        routes=routes, middleware=[Middleware(Guard, door=site.door), Middleware(GZipMiddleware, minimum_size=1000)]
    )
