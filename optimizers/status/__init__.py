"""The status of a study: what its stored records say."""

from ragc.optimizers.status.read import open_study, status, study_trials
from ragc.optimizers.status.record import StudyStatus

__all__ = ["StudyStatus", "open_study", "status", "study_trials"]
