"""Every error that hgkt raises on purpose: what was wrong, where, and what is expected."""


class HGKTError(Exception):
    """Base of all errors a user can cause; the command line prints it as one sentence."""


class DataError(HGKTError, ValueError):
    """Features, labels, attributes or splits that cannot be used."""


class UnknownNameError(HGKTError, ValueError):
    """A method, data set, kernel or preset that is not registered."""


class ModelFolderError(HGKTError, ValueError):
    """A model folder that is missing, incomplete, altered or of another version."""


class DownloadError(HGKTError, OSError):
    """A download that failed on every mirror."""


class MissingExtraError(HGKTError, ImportError):
    """An optional dependency that is not installed."""


class WorkerError(HGKTError, RuntimeError):
    """A task that failed in its worker for no reason of the data, or that no worker survives."""


class ConfidenceWarning(UserWarning):
    """Probabilities, a rejection or a prediction set that promises less than one may think."""


class ServiceError(HGKTError):
    """A service answered with an error, or with something else than expected.

    Parameters
    ----------
    message : str
        What is wrong, in the service's own sentence where it has one.
    status : int, optional
        The HTTP status; None where there was no answer.
    request_id : str, optional
        By what the service's log names the request.
    """

    def __init__(
        self, message: str, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.request_id = status, request_id


class ServiceRefusedError(ServiceError, ValueError):
    """A request that a service does not accept; sending it again would not help."""


class ServiceUnavailableError(ServiceError, ConnectionError):
    """A service that cannot be reached, or cannot answer now."""


class ClassWarning(UserWarning):
    """A class that is taken in, but can hardly be told from others."""


_MOST = 300  # characters of another library's words; some repeat what they could not read


def first_line(error: BaseException) -> str:
    """Return the first line of what an error of another library says, or the name of its type.

    Of an error of the operating system only its words are left, without number and path.

    Examples
    --------
    >>> first_line(ValueError("no such thing\\nsee the manual")), first_line(KeyError())
    ('no such thing', 'KeyError')
    >>> first_line(FileNotFoundError(2, "No such file or directory", "rows.npy"))
    'No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0].rstrip()[:_MOST] if lines else type(error).__name__
