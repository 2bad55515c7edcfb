"""The times of a cron line, by cronsim: as Debian's cron has them, around the changes of summer time as well."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def next_ms(line: str, timezone: str, after_ms: int) -> int:
    """The first time of a cron line (five fields, or six with seconds first) after a moment, in milliseconds since
    1970 UTC.

    Raises ValueError where the line or the timezone is wrong, or the line has no time in the next 50 years, and
    ImportError without cronsim.
    """
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise ImportError(f"cron lines need cronsim: pip install cronsim ({error})") from error
    try:
        zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{timezone!r} is no timezone, as Europe/Berlin is ({error})") from error
    try:
        found = next(CronSim(line, datetime.fromtimestamp(after_ms // 1000, zone)))
    except CronSimError as error:
        raise ValueError(f"{line!r} is no cron line, as '30 3 * * MON' is: {error}") from error
    except (StopIteration, OverflowError) as error:
        raise ValueError(f"the cron line {line!r} has no time in the next 50 years") from error
    return int(found.timestamp()) * 1000
