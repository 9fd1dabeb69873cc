"""Estimators and transformers of scikit-learn, LightGBM and XGBoost that have ONNX converters.

A name is the class, after a colon its variant: `SVC`, `SVC:probability`. Every case is fitted
on the same generated data, of the kind that its table names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Make = Callable[[], Any]


def _sklearn(module: str, name: str, **options: Any) -> Any:
    return getattr(import_module(f"sklearn.{module}"), name)(**options)


def _of(module: str, *names: str, **options: Any) -> dict[str, Make]:
    return {
        name: (lambda name=name: _sklearn(module, name.split(":")[0], **options))
        for name in names
    }


def _logistic() -> Any:
    return _sklearn("linear_model", "LogisticRegression")


def _ridge() -> Any:
    return _sklearn("linear_model", "Ridge")


def _tree(kind: str = "Classifier") -> Any:
    return _sklearn("tree", f"DecisionTree{kind}", max_depth=3, random_state=0)


def _kernels() -> Mapping[str, Make]:
    from sklearn.gaussian_process import kernels as k

    return {
        "rbf": lambda: k.RBF(1.5),
        "matern": lambda: k.Matern(1.5, nu=1.5),
        "rational": lambda: k.RationalQuadratic(1.0, 0.7),
        "sum": lambda: k.ConstantKernel(0.5) * k.RBF(2.0) + k.WhiteKernel(0.1),
        "dot": lambda: k.DotProduct(1.0) + k.WhiteKernel(0.5),
    }


def _gaussian_process(name: str, kernel: str) -> Any:
    return _sklearn(
        "gaussian_process",
        name,
        kernel=_kernels()[kernel](),
        optimizer=None,
        random_state=0,
        **({"alpha": 0.5} if "Regressor" in name else {}),
    )


def _boosted(library: str, name: str, **options: Any) -> Any:
    return getattr(import_module(library), name)(n_estimators=8, max_depth=3, **options)


def _light(name: str, **options: Any) -> Any:
    return _boosted("lightgbm", name, min_child_samples=3, verbose=-1, n_jobs=1, **options)


def _columns() -> Any:
    scaler, binner = (_sklearn("preprocessing", n) for n in ("StandardScaler", "Normalizer"))
    parts = [("a", scaler, [0, 2]), ("b", binner, [1, 3])]
    return _sklearn("compose", "ColumnTransformer", transformers=parts)


def _pipeline(*steps: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*steps)


def _union() -> Any:
    parts = [("a", _sklearn("decomposition", "PCA", n_components=2)),
             ("b", _sklearn("preprocessing", "MinMaxScaler"))]  # fmt: skip
    return _sklearn("pipeline", "FeatureUnion", transformer_list=parts)


def _mixed(kind: str, make: str) -> Any:
    """Voting or stacking of two estimators."""
    if kind == "Classifier":
        estimators = [("a", _logistic()), ("b", _tree())]
    else:
        estimators = [("a", _ridge()), ("b", _tree("Regressor"))]
    options = {}
    if make == "VotingClassifier":
        options = {"voting": "soft", "flatten_transform": False}
    return _sklearn("ensemble", make, estimators=estimators, **options)


REGRESSORS: Mapping[str, Make] = {
    **_of(
        "linear_model", "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV",
        "HuberRegressor", "Lars", "LarsCV", "Lasso", "LassoCV", "LassoLars", "LassoLarsCV",
        "LassoLarsIC", "LinearRegression", "OrthogonalMatchingPursuit",
        "OrthogonalMatchingPursuitCV", "QuantileRegressor", "RANSACRegressor", "Ridge",
        "RidgeCV", "SGDRegressor", "TheilSenRegressor",
    ),
    **_of("linear_model", "PassiveAggressiveRegressor"),
    **_of("svm", "LinearSVR", "NuSVR", "SVR"),
    **_of("svm", "SVR:polynomial", kernel="poly", degree=2),
    **_of("svm", "SVR:linear", kernel="linear"),
    **_of("svm", "SVR:sigmoid", kernel="sigmoid"),
    **_of("tree", "DecisionTreeRegressor", "ExtraTreeRegressor", max_depth=4, random_state=0),
    **_of("ensemble", "AdaBoostRegressor", n_estimators=5, random_state=0),
    **_of("ensemble", "BaggingRegressor", n_estimators=4, random_state=0),
    **_of(
        "ensemble", "ExtraTreesRegressor", "GradientBoostingRegressor", "RandomForestRegressor",
        n_estimators=8, max_depth=3, random_state=0,
    ),
    **_of("ensemble", "HistGradientBoostingRegressor", max_iter=8, min_samples_leaf=3),
    **_of("neighbors", "KNeighborsRegressor"),
    **_of("neighbors", "KNeighborsRegressor:distance", weights="distance"),
    **_of("neighbors", "KNeighborsRegressor:manhattan", metric="manhattan"),
    **_of("neighbors", "RadiusNeighborsRegressor", radius=100.0),
    **_of("neural_network", "MLPRegressor", hidden_layer_sizes=(8,), max_iter=50),
    "GaussianProcessRegressor": lambda: _gaussian_process("GaussianProcessRegressor", "sum"),
    **{
        f"GaussianProcessRegressor:{kernel}": (
            lambda kernel=kernel: _gaussian_process("GaussianProcessRegressor", kernel)
        )
        for kernel in ("rbf", "matern", "rational", "dot")
    },
    "StackingRegressor": lambda: _mixed("Regressor", "StackingRegressor"),
    "VotingRegressor": lambda: _mixed("Regressor", "VotingRegressor"),
    "GridSearchCV:regressor": lambda: _sklearn(
        "model_selection", "GridSearchCV", estimator=_ridge(), param_grid={"alpha": [0.1, 1.0]}
    ),
    "LGBMRegressor": lambda: _light("LGBMRegressor"),
    "LGBMRegressor:dart": lambda: _light("LGBMRegressor", boosting_type="dart"),
    "LGBMRegressor:quantile": lambda: _light("LGBMRegressor", objective="quantile"),
    "XGBRegressor": lambda: _boosted("xgboost", "XGBRegressor"),
    "XGBRFRegressor": lambda: _boosted("xgboost", "XGBRFRegressor"),
}  # fmt: skip

POSITIVE: Mapping[str, Make] = {
    **_of("linear_model", "GammaRegressor", "PoissonRegressor"),
    **_of("linear_model", "TweedieRegressor", power=1.5),
    "LGBMRegressor:poisson": lambda: _light("LGBMRegressor", objective="poisson"),
    "LGBMRegressor:tweedie": lambda: _light("LGBMRegressor", objective="tweedie"),
    "XGBRegressor:poisson": lambda: _boosted(
        "xgboost", "XGBRegressor", objective="count:poisson"
    ),
}

TWO_TARGETS: Mapping[str, Make] = {
    **_of("linear_model", "MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso",
          "MultiTaskLassoCV"),
    **_of("cross_decomposition", "PLSRegression"),
    **_of("tree", "DecisionTreeRegressor:two targets", max_depth=4, random_state=0),
    **_of("ensemble", "RandomForestRegressor:two targets", n_estimators=5, max_depth=3),
    **_of("neighbors", "KNeighborsRegressor:two targets"),
    "MultiOutputRegressor": lambda: _sklearn(
        "multioutput", "MultiOutputRegressor", estimator=_ridge()
    ),
}  # fmt: skip

CLASSIFIERS: Mapping[str, Make] = {
    **_of(
        "linear_model", "LogisticRegression", "LogisticRegressionCV", "Perceptron",
        "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier", "PassiveAggressiveClassifier",
    ),
    **_of("linear_model", "SGDClassifier:log", loss="log_loss"),
    **_of("linear_model", "SGDClassifier:huber", loss="modified_huber"),
    **_of("svm", "LinearSVC", "NuSVC", "SVC"),
    **_of("svm", "SVC:probability", "NuSVC:probability", probability=True, random_state=0),
    **_of("svm", "SVC:one against one", decision_function_shape="ovo"),
    **_of("tree", "DecisionTreeClassifier", "ExtraTreeClassifier", max_depth=4, random_state=0),
    **_of("ensemble", "AdaBoostClassifier", n_estimators=5, random_state=0),
    **_of("ensemble", "BaggingClassifier", n_estimators=4, random_state=0),
    **_of(
        "ensemble", "ExtraTreesClassifier", "GradientBoostingClassifier",
        "RandomForestClassifier", n_estimators=8, max_depth=3, random_state=0,
    ),
    **_of("ensemble", "HistGradientBoostingClassifier", max_iter=8, min_samples_leaf=3),
    **_of("neighbors", "KNeighborsClassifier"),
    **_of("neighbors", "KNeighborsClassifier:distance", weights="distance"),
    **_of("neighbors", "RadiusNeighborsClassifier", radius=100.0),
    **_of("neural_network", "MLPClassifier", hidden_layer_sizes=(8,), max_iter=50),
    **_of("naive_bayes", "BernoulliNB", "GaussianNB"),
    **_of("discriminant_analysis", "LinearDiscriminantAnalysis",
          "QuadraticDiscriminantAnalysis"),
    "GaussianProcessClassifier": lambda: _gaussian_process("GaussianProcessClassifier", "rbf"),
    "CalibratedClassifierCV": lambda: _sklearn(
        "calibration", "CalibratedClassifierCV", estimator=_logistic(), cv=3
    ),
    "CalibratedClassifierCV:isotonic": lambda: _sklearn(
        "calibration", "CalibratedClassifierCV", estimator=_tree(), cv=3, method="isotonic"
    ),
    "OneVsRestClassifier": lambda: _sklearn(
        "multiclass", "OneVsRestClassifier", estimator=_logistic()
    ),
    "OneVsOneClassifier": lambda: _sklearn(
        "multiclass", "OneVsOneClassifier", estimator=_sklearn("svm", "LinearSVC")
    ),
    "StackingClassifier": lambda: _mixed("Classifier", "StackingClassifier"),
    "VotingClassifier": lambda: _mixed("Classifier", "VotingClassifier"),
    "Pipeline": lambda: _pipeline(
        _sklearn("preprocessing", "StandardScaler"),
        _sklearn("decomposition", "PCA", n_components=3),
        _logistic(),
    ),
    "GridSearchCV": lambda: _sklearn(
        "model_selection", "GridSearchCV", estimator=_logistic(), param_grid={"C": [0.1, 1.0]}
    ),
    "LGBMClassifier": lambda: _light("LGBMClassifier"),
    "LGBMClassifier:one against all": lambda: _light(
        "LGBMClassifier", objective="multiclassova"
    ),
    "XGBClassifier": lambda: _boosted("xgboost", "XGBClassifier"),
    "XGBRFClassifier": lambda: _boosted("xgboost", "XGBRFClassifier"),
}  # fmt: skip

TWO_CLASSES: Mapping[str, Make] = {
    **_of("linear_model", "LogisticRegression:two classes", "SGDClassifier:two classes"),
    **_of("svm", "SVC:two classes", "LinearSVC:two classes"),
    **_of("svm", "SVC:probability, two classes", probability=True, random_state=0),
    **_of("tree", "DecisionTreeClassifier:two classes", max_depth=4),
    **_of("ensemble", "GradientBoostingClassifier:two classes", n_estimators=8, max_depth=3),
    **_of("ensemble", "HistGradientBoostingClassifier:two classes", max_iter=8),
    **_of("ensemble", "RandomForestClassifier:two classes", n_estimators=8, max_depth=3),
    **_of("ensemble", "AdaBoostClassifier:two classes", n_estimators=5),
    **_of("neural_network", "MLPClassifier:two classes", hidden_layer_sizes=(8,), max_iter=50),
    "GaussianProcessClassifier:two classes": lambda: _gaussian_process(
        "GaussianProcessClassifier", "sum"
    ),
    "TunedThresholdClassifierCV": lambda: _sklearn(
        "model_selection", "TunedThresholdClassifierCV", estimator=_logistic()
    ),
    "LGBMClassifier:two classes": lambda: _light("LGBMClassifier"),
    "LGBMClassifier:forest": lambda: _light(
        "LGBMClassifier", boosting_type="rf", bagging_freq=1, bagging_fraction=0.7
    ),
    "XGBClassifier:two classes": lambda: _boosted("xgboost", "XGBClassifier"),
}

COUNTS: Mapping[str, Make] = {
    **_of("naive_bayes", "CategoricalNB", "ComplementNB", "MultinomialNB"),
    **_of("feature_extraction.text", "TfidfTransformer"),
    **_of("preprocessing", "OneHotEncoder", handle_unknown="ignore", sparse_output=False),
    **_of("preprocessing", "OrdinalEncoder"),
    **_of("preprocessing", "TargetEncoder", random_state=0),
}

LABELS: Mapping[str, Make] = _of("preprocessing", "LabelBinarizer", "LabelEncoder")

CLASS_TARGETS: Mapping[str, Make] = {
    "MultiOutputClassifier": lambda: _sklearn(
        "multioutput", "MultiOutputClassifier", estimator=_logistic()
    ),
    **_of("tree", "DecisionTreeClassifier:two targets", max_depth=3),
    **_of("neighbors", "KNeighborsClassifier:two targets"),
}

MANY_LABELS: Mapping[str, Make] = {
    "OneVsRestClassifier:many labels": lambda: _sklearn(
        "multiclass", "OneVsRestClassifier", estimator=_logistic()
    ),
    **_of("neural_network", "MLPClassifier:many labels", hidden_layer_sizes=(8,), max_iter=50),
}

OUTLIERS: Mapping[str, Make] = {
    **_of("ensemble", "IsolationForest", n_estimators=10, random_state=0),
    **_of("neighbors", "LocalOutlierFactor", novelty=True),
    **_of("svm", "OneClassSVM"),
    **_of("linear_model", "SGDOneClassSVM"),
}

CLUSTERS: Mapping[str, Make] = {
    **_of("cluster", "KMeans", "MiniBatchKMeans", n_clusters=3, random_state=0, n_init=1),
    **_of("mixture", "GaussianMixture", "BayesianGaussianMixture", n_components=2,
          random_state=0),
    **_of("mixture", "GaussianMixture:tied", n_components=2, covariance_type="tied"),
    **_of("mixture", "GaussianMixture:diag", n_components=2, covariance_type="diag"),
}  # fmt: skip

TRANSFORMERS: Mapping[str, Make] = {
    **_of("preprocessing", "Binarizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer",
          "PolynomialFeatures", "PowerTransformer", "RobustScaler", "StandardScaler"),
    **_of("preprocessing", "MinMaxScaler:clip", clip=True),
    **_of("preprocessing", "Normalizer:largest", norm="max"),
    **_of("preprocessing", "PolynomialFeatures:interactions", interaction_only=True),
    **_of("preprocessing", "KBinsDiscretizer", n_bins=4, encode="ordinal"),
    **_of("preprocessing", "KBinsDiscretizer:one hot", n_bins=4, encode="onehot-dense"),
    **_of("preprocessing", "QuantileTransformer", n_quantiles=20),
    **_of("preprocessing", "FunctionTransformer"),
    **_of("decomposition", "IncrementalPCA", "PCA", "TruncatedSVD", n_components=3),
    **_of("decomposition", "PCA:whitened", n_components=3, whiten=True),
    **_of("decomposition", "KernelPCA", n_components=3, kernel="rbf"),
    **_of("random_projection", "GaussianRandomProjection", n_components=3, random_state=0),
    **_of("neighbors", "KNeighborsTransformer"),
    **_of("neighbors", "NearestNeighbors", radius=None),
    **_of("neighbors", "NeighborhoodComponentsAnalysis", n_components=2, max_iter=10),
    **_of("feature_selection", "GenericUnivariateSelect", "SelectFdr", "SelectFpr",
          "SelectFwe", "SelectPercentile", "VarianceThreshold"),
    **_of("feature_selection", "SelectKBest", k=3),
    **{
        name: (lambda name=name: _sklearn("feature_selection", name, estimator=_logistic()))
        for name in ("RFE", "RFECV", "SelectFromModel")
    },
    **_of("ensemble", "RandomTreesEmbedding", n_estimators=4, max_depth=3,
          sparse_output=False, random_state=0),
    "ColumnTransformer": _columns,
    "FeatureUnion": _union,
    "Pipeline:transformers": lambda: _pipeline(
        _sklearn("preprocessing", "StandardScaler"), _union()
    ),
}  # fmt: skip

HOLES: Mapping[str, Make] = {
    **_of("impute", "KNNImputer", "SimpleImputer"),
    **_of("impute", "SimpleImputer:indicator", add_indicator=True),
    **_of("impute", "SimpleImputer:median", strategy="median"),
    **_of("ensemble", "HistGradientBoostingClassifier:missing", max_iter=8,
          min_samples_leaf=3),
    **_of("ensemble", "RandomForestClassifier:missing", n_estimators=5, max_depth=3),
    "LGBMClassifier:missing": lambda: _light("LGBMClassifier"),
    "XGBClassifier:missing": lambda: _boosted("xgboost", "XGBClassifier"),
}  # fmt: skip

KERNELS: Mapping[str, Make] = _of("preprocessing", "KernelCenterer")

KINDS: Mapping[str, Mapping[str, Make]] = {
    "regression": REGRESSORS,
    "positive targets": POSITIVE,
    "two targets": TWO_TARGETS,
    "classes": {**CLASSIFIERS, **TRANSFORMERS, **OUTLIERS, **CLUSTERS},
    "two classes": TWO_CLASSES,
    "counts": COUNTS,
    "labels": LABELS,
    "two class targets": CLASS_TARGETS,
    "many labels": MANY_LABELS,
    "holes": HOLES,
    "kernel": KERNELS,
}
"""Cases by the kind of their data."""
